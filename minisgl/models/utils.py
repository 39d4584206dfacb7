"""The two blocks of a decoder layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from minisgl.layers import (
    BaseOP,
    LinearColParallelMerged,
    LinearOProj,
    LinearQKVMerged,
    LinearRowParallel,
    RMSNorm,
    gelu_and_mul,
    silu_and_mul,
)
from minisgl.layers.attention import AttentionLayer
from minisgl.utils import nvtx_annotate

if TYPE_CHECKING:
    from .config import ModelConfig

__all__ = ["GatedMLP", "RopeAttn"]

ACTIVATIONS = {"silu": silu_and_mul, "gelu": gelu_and_mul}


class GatedMLP(BaseOP):
    """down(act(gate(x)) * up(x)), with gate and up as one product."""

    def __init__(self, config: ModelConfig) -> None:
        if config.hidden_act not in ACTIVATIONS:
            raise ValueError(f"activation {config.hidden_act!r} is not supported")
        hidden, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_up_proj = LinearColParallelMerged(hidden, [inner, inner], has_bias=bias)
        self.down_proj = LinearRowParallel(inner, hidden, has_bias=bias)
        self._act_and_mul = ACTIVATIONS[config.hidden_act]

    @nvtx_annotate("MLP")
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (tokens, hidden_size) -> same"""
        return self.down_proj.forward(self._act_and_mul(self.gate_up_proj.forward(x)))


class RopeAttn(BaseOP):
    """The attention block: merged projection, attention with rotary positions, output projection.

    q_norm and k_norm (Qwen3) normalize each head before the rotation.
    """

    def __init__(
        self,
        config: ModelConfig,
        layer_id: int,
        *,
        has_attn_bias: bool = False,
        has_qk_norm: bool = False,
    ) -> None:
        heads, kv_heads, head_dim = config.num_qo_heads, config.num_kv_heads, config.head_dim
        self.qkv_proj = LinearQKVMerged(
            config.hidden_size, head_dim, heads, kv_heads, has_bias=has_attn_bias
        )
        self.o_proj = LinearOProj(heads * head_dim, config.hidden_size, has_bias=config.o_bias)
        if has_qk_norm:
            self.q_norm = RMSNorm(head_dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(head_dim, config.rms_norm_eps)
        self._attn = AttentionLayer(
            layer_id,
            heads,
            kv_heads,
            head_dim,
            config.rotary_config,
            q_norm=self.q_norm if has_qk_norm else None,
            k_norm=self.k_norm if has_qk_norm else None,
        )

    @nvtx_annotate("MHA")
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (tokens, hidden_size) -> same"""
        return self.o_proj.forward(self._attn.forward(self.qkv_proj.forward(x)))
