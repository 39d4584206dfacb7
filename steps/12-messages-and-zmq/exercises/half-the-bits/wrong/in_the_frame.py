"""Believes that a frame's memory is as good as any other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from minisgl.message.utils import DTYPES, TYPE, MessageError, _fits, _same_keys, _shown

CARRIED = {**{name: name for name in DTYPES}, "bfloat16": "int16"}
"""Each dtype that a message carries, and the one of numpy with which its bits are moved."""


def tensor_map(tensor: torch.Tensor) -> dict[str, Any]:
    """Return a tensor as a map of plain values; raises MessageError for what can't be sent."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in CARRIED or not tensor.is_cpu:
        raise MessageError(f"a message can't carry a tensor of {dtype} on {tensor.device}")
    bits = tensor.detach().contiguous().view(getattr(torch, CARRIED[dtype]))
    data = bits.numpy().tobytes()
    return {TYPE: "Tensor", "dtype": dtype, "shape": list(tensor.shape), "data": data}


def tensor(data: dict[str, Any]) -> torch.Tensor:
    """Return the tensor that a map describes, in memory of its own; raises MessageError."""
    _same_keys("Tensor", data, {"dtype": str, "shape": list, "data": bytes})
    dtype, shape, raw = data["dtype"], data["shape"], data["data"]
    if not isinstance(dtype, str) or dtype not in CARRIED:
        raise MessageError(f"a tensor's dtype can't be {_shown(dtype)}")
    if not _fits(shape, list[int]) or any(not 0 <= size < 2**31 for size in shape):
        raise MessageError(f"a tensor's shape can't be {_shown(shape)}")
    size = math.prod(shape) * np.dtype(CARRIED[dtype]).itemsize
    if len(shape) > 8 or not isinstance(raw, bytes) or len(raw) != size:
        raise MessageError(f"a tensor of {dtype} and shape {_shown(shape)} is {size} bytes")
    try:
        bits = torch.from_numpy(np.ndarray(shape, CARRIED[dtype], raw))
    except (ValueError, RuntimeError) as error:  # such as (0, 2**31 - 1, 2**31 - 1, ...)
        raise MessageError(f"a tensor can't have the shape {_shown(shape)}: {error}") from None
    return bits.view(getattr(torch, dtype))
