"""Attention as the model sees it: split, normalize and rotate; the backend does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from minisgl.core import get_global_ctx
from minisgl.distributed.info import get_tp_info
from minisgl.utils import div_even

from .base import StateLessOP
from .rotary import get_rope

if TYPE_CHECKING:
    from minisgl.models.config import RotaryConfig

    from .norm import RMSNorm


class AttentionLayer(StateLessOP):
    """From merged q, k, v to the heads' outputs; q_norm and k_norm are the caller's weights."""

    def __init__(
        self,
        layer_id: int,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rotary_config: RotaryConfig,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
    ) -> None:
        super().__init__()
        tp_size = get_tp_info().size
        self.layer_id, self.head_dim = layer_id, head_dim
        self.num_qo_heads = div_even(num_qo_heads, tp_size)
        self.num_kv_heads = div_even(num_kv_heads, tp_size, allow_replicate=True)
        self._q_norm, self._k_norm = q_norm, k_norm
        scaling = rotary_config.scaling
        self._rotary = get_rope(
            head_dim=head_dim,
            rotary_dim=rotary_config.rotary_dim,
            max_position=rotary_config.max_position,
            base=rotary_config.base,
            rope_scaling=tuple(sorted(scaling.items())) if scaling else None,
        )

    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        """qkv: (tokens, (qo_heads + 2 * kv_heads) * head_dim) -> (tokens, qo_heads * head_dim)

        The norms work in the memory of qkv, which is the caller's to lose.
        """
        ctx = get_global_ctx()
        heads = [self.num_qo_heads, self.num_kv_heads, self.num_kv_heads]
        q, k, v = torch.split(qkv.view(len(qkv), -1, self.head_dim), heads, dim=1)
        if self._q_norm is not None:
            self._q_norm.forward_inplace(q)
        if self._k_norm is not None:
            self._k_norm.forward_inplace(k)
        q, k = self._rotary.forward(ctx.batch.positions, q, k)
        return ctx.attn_backend.forward(q, k, v, self.layer_id, ctx.batch).flatten(1)
