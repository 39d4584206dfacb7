"""Compares the weights after exp."""

from __future__ import annotations

import math

import torch

Part = tuple[torch.Tensor, torch.Tensor]
"""K and V of some tokens, each (tokens, kv_heads, head_dim)."""


def attend(q: torch.Tensor, prefix: Part, own: Part) -> torch.Tensor:
    """q: (new, qo_heads, head_dim); prefix: may be empty; own: of the new tokens -> like q"""
    heads, new = q.shape[1], len(q)
    triangle = torch.ones(new, new, dtype=torch.bool).tril()
    near, near_weight = mixed(q, spread(own[0], heads), spread(own[1], heads), triangle)
    if len(prefix[0]) == 0:
        return near
    far, far_weight = mixed(q, spread(prefix[0], heads), spread(prefix[1], heads), None)
    far_sum, near_sum = far_weight.exp(), near_weight.exp()
    share = (far_sum / (far_sum + near_sum)).unsqueeze(-1)
    return share * far + (1 - share) * near


def spread(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Give each query head its key or value head: (tokens, heads, head_dim)."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def mixed(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend to one part: its mixed values, like q, and its weight, (new, heads)."""
    scores = torch.einsum("qhd,khd->qhk", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), -math.inf)
    out = torch.einsum("qhk,khd->qhd", scores.softmax(-1), v)
    return out, scores.logsumexp(-1)
