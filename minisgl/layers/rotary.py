"""Rotary position embedding (Su et al., 2021), with Llama 3's scaling of long wavelengths."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from .base import StateLessOP

__all__ = ["RotaryEmbedding", "get_rope", "set_rope_device"]


class RotaryEmbedding(StateLessOP):
    """Turn the channel pairs (i, i + rotary_dim / 2) of each head by angles position * freq_i.

    freq_i = 1 / base ** (2 i / rotary_dim); post_process changes them: (rotary_dim / 2,) -> same.
    """

    def __init__(
        self,
        head_size: int,
        rotary_dim: int,
        max_position_embeddings: int,
        base: float,
        post_process: None | Callable[[torch.Tensor], torch.Tensor] = None,
    ) -> None:
        super().__init__()
        self.head_size, self.rotary_dim = head_size, rotary_dim
        with torch.device(_ROPE_DEVICE):
            exponents = torch.arange(0, rotary_dim, 2).float() / rotary_dim
            freqs = 1.0 / torch.pow(base, exponents)
            freqs = freqs if post_process is None else post_process(freqs)
            angles = torch.outer(torch.arange(max_position_embeddings).float(), freqs)
        cos, sin = angles.cos(), angles.sin()
        self._cos_sin_cache = torch.cat((cos, cos, -sin, sin), dim=-1)

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """positions: (tokens,); query, key: (tokens, heads, head_size) -> both rotated, new."""
        cos, sin = self._cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
        turned = self._rotate(torch.cat((query, key), dim=1), cos, sin)
        return turned[:, : query.shape[1]], turned[:, query.shape[1] :]

    def _rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        pairs, rest = x[..., : self.rotary_dim].float(), x[..., self.rotary_dim :]
        partners = pairs.roll(self.rotary_dim // 2, dims=-1)
        turned = torch.addcmul(pairs * cos, partners, sin).to(x.dtype)
        return torch.cat((turned, rest), dim=-1) if rest.numel() else turned


def _llama3_scaling(freqs: torch.Tensor, scaling: dict[str, Any]) -> torch.Tensor:
    """Slow down the waves that turn few times within the original context; see Llama 3's report.

    A wave with at most low_freq_factor turns is slowed by factor, one with at least
    high_freq_factor turns is kept, and between them the two are blended.
    """
    length: int = scaling["original_max_position_embeddings"]
    low: float = scaling["low_freq_factor"]
    high: float = scaling["high_freq_factor"]
    turns = length * freqs / (2 * math.pi)
    kept: torch.Tensor = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    factor: float = scaling["factor"]
    return kept * freqs + (1.0 - kept) * freqs / factor


def _get_rope(
    head_dim: int,
    rotary_dim: int,
    max_position: int,
    base: float,
    rope_scaling: dict[str, Any] | None = None,
) -> RotaryEmbedding:
    kind = (rope_scaling or {}).get("rope_type", "default")
    if kind == "default":
        return RotaryEmbedding(head_dim, rotary_dim, max_position, base)
    if kind == "llama3":
        scale = functools.partial(_llama3_scaling, scaling=rope_scaling or {})
        return RotaryEmbedding(head_dim, rotary_dim, max_position, base, scale)
    raise ValueError(f"rope type {kind!r} is not supported: only default and llama3 are")


_ROPE_DEVICE = torch.device("cpu")


def set_rope_device(device: torch.device) -> None:
    """Make the tables of later get_rope calls on device; on another one, forget the old tables."""
    global _ROPE_DEVICE
    if device != _ROPE_DEVICE:
        _ROPE_DEVICE = device
        get_rope.cache_clear()


@functools.cache
def get_rope(
    head_dim: int,
    rotary_dim: int,
    max_position: int,
    base: float,
    rope_scaling: tuple[tuple[str, Any], ...] | None = None,
) -> RotaryEmbedding:
    """Return the rotary embedding for these settings; all layers of a model share one table.

    rope_scaling: the items of the checkpoint's rope settings, with rope_type default or llama3;
    raises ValueError for another one.
    """
    scaling = dict(rope_scaling) if rope_scaling else None
    return _get_rope(head_dim, rotary_dim, max_position, base, scaling)
