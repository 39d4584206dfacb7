"""An RMSNorm with three faults, none of which shows when you try it in bfloat16."""

from __future__ import annotations

import torch

FIRST_TOO_BIG: float | None = None
"""The smallest power of two that spoils a float16 vector in the function as it stands."""

CHANGES_ITS_INPUT: list[str] | None = None
"""In which of float16, bfloat16, float32, float64 the function as it stands changes x."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x: (..., size), unchanged -> the same shape and dtype; weight: (size,) of that dtype."""
    mean_square = x.pow(2).mean(-1, keepdim=True)
    wide = x.float()
    wide *= torch.rsqrt(mean_square.float() + eps)
    return (wide * weight).to(x.dtype)
