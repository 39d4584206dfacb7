"""Believes that numbers which overflow may be cut off."""

from __future__ import annotations

import torch

FIRST_TOO_BIG: float | None = 256.0
"""256 squared is 65,536, and the largest float16 is 65,504: the mean becomes infinite."""

CHANGES_ITS_INPUT: list[str] | None = ["float32"]
"""There x.float() is x itself; from every other dtype it makes a copy."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x: (..., size), unchanged -> the same shape and dtype; weight: (size,) of that dtype."""
    x = x.clamp(-255.0, 255.0)
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True).float() + eps)
    return (x.float() * scale).to(x.dtype) * weight
