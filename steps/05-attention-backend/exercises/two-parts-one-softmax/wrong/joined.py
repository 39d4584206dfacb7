"""Joins the two parts, so that one softmax sees all."""

from __future__ import annotations

import torch
import torch.nn.functional as F

Part = tuple[torch.Tensor, torch.Tensor]
"""K and V of some tokens, each (tokens, kv_heads, head_dim)."""


def attend(q: torch.Tensor, prefix: Part, own: Part) -> torch.Tensor:
    """q: (new, qo_heads, head_dim); prefix: may be empty; own: of the new tokens -> like q"""
    k, v = (torch.cat([far, near]).transpose(0, 1) for far, near in zip(prefix, own, strict=True))
    mask = torch.ones(len(q), k.shape[1], dtype=torch.bool).tril(len(prefix[0]))
    out = F.scaled_dot_product_attention(q.transpose(0, 1), k, v, mask, enable_gqa=True)
    return out.transpose(0, 1)
