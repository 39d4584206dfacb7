"""Gated activations: the first half of the channels, activated, times the second half."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def silu_and_mul(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return silu(gate) * up for x: (tokens, 2 * size), gate first -> (tokens, size), in out."""
    gate, up = x.chunk(2, dim=-1)
    return torch.mul(F.silu(gate), up, out=out)


def gelu_and_mul(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return gelu(gate) * up for x: (tokens, 2 * size), gate first -> (tokens, size), in out."""
    gate, up = x.chunk(2, dim=-1)
    return torch.mul(F.gelu(gate), up, out=out)
