"""Fair timing of several ways to do one thing: in turns, and by their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def medians(ways: Sequence[Callable[[], object]], rounds: int, skipped: int = 1) -> list[float]:
    """The median seconds of each way; skipped rounds that are not counted come first."""
    times: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + skipped):
        for way, spent in zip(ways, times, strict=True):
            start = time.perf_counter()
            way()
            if turn >= skipped:
                spent.append(time.perf_counter() - start)
    return [statistics.median(spent) for spent in times]
