"""RMSNorm (Zhang and Sennrich, 2019), alone and with the addition of the residual."""

from __future__ import annotations

import torch

from .base import BaseOP


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The mean square is taken in float32 whatever the dtype of x; x itself is left alone."""
    wide = x.float()
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    scale = torch.rsqrt(length.square() / x.shape[-1] + eps)
    return (wide * scale).to(x.dtype) * weight


class RMSNorm(BaseOP):
    """Scale vectors to a root mean square of one, then by a weight per channel."""

    def __init__(self, size: int, eps: float) -> None:
        self.eps = eps
        self.weight = torch.empty(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (..., size), unchanged -> (..., size)"""
        return _rms_norm(x, self.weight, self.eps)

    def forward_inplace(self, x: torch.Tensor) -> None:
        """Normalize x: (..., size) in its own memory."""
        x.copy_(_rms_norm(x, self.weight, self.eps))


class RMSNormFused(BaseOP):
    """Add a block's output to the residual, then normalize the sum for the next block."""

    def __init__(self, size: int, eps: float) -> None:
        self.eps = eps
        self.weight = torch.empty(size)

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x, residual: (tokens, size), unchanged -> (normalized, new residual), both new tensors.

        Without a residual, x starts it.
        """
        total = x.clone() if residual is None else x + residual
        return _rms_norm(total, self.weight, self.eps), total
