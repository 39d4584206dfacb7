"""Believes that only a number beyond the range of float16 does harm."""

from __future__ import annotations

import torch

FIRST_TOO_BIG: float | None = 65536.0
"""The largest float16 is 65,504."""

CHANGES_ITS_INPUT: list[str] | None = ["float32"]
"""There x.float() is x itself; from every other dtype it makes a copy."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x: (..., size), unchanged -> the same shape and dtype; weight: (size,) of that dtype."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * scale).to(x.dtype) * weight
