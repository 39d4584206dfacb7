"""How fast this machine streams memory: the bound of a decode step, which reads every weight."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from minisgl.layers.linear import linear, pack_weight

BYTES = 512 << 20


def _rate(read: Callable[[], object], size: int, rounds: int = 7) -> float:
    """Bytes per second of the median round."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return size / statistics.median(times[1:])


def plain_read() -> float:
    """Bytes per second of a sum over more memory than the caches hold."""
    values = torch.ones(BYTES // 4)
    return _rate(values.sum, BYTES)


def packed_matvec() -> float:
    """Bytes per second of packed matrices times one vector, of a size that models have."""
    width, height, count = 576, 3072, BYTES // (4 * 576 * 3072)
    weights = [pack_weight(torch.randn(height, width)) for _ in range(count)]
    x = torch.randn(1, width)
    return _rate(lambda: [linear(x, weight) for weight in weights], 4 * width * height * count)
