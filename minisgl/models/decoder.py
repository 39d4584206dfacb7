"""One decoder for Llama, Mistral, Qwen2.5 and Qwen3: they differ in switches of the config only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from minisgl.core import get_global_ctx
from minisgl.layers import (
    BaseOP,
    OPList,
    ParallelLMHead,
    RMSNormFused,
    VocabParallelEmbedding,
)
from minisgl.utils import nvtx_annotate

from .base import BaseLLMModel
from .utils import GatedMLP, RopeAttn

if TYPE_CHECKING:
    from .config import ModelConfig


class DecoderLayer(BaseOP):
    """Attention, then the MLP, each between a norm and the residual."""

    def __init__(self, config: ModelConfig, layer_id: int) -> None:
        self.self_attn = RopeAttn(
            config, layer_id, has_attn_bias=config.qkv_bias, has_qk_norm=config.qk_norm
        )
        self.mlp = GatedMLP(config)
        self.input_layernorm = RMSNormFused(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNormFused(config.hidden_size, config.rms_norm_eps)
        self._layer_id = layer_id

    @nvtx_annotate("Layer_{}", layer_id_field="_layer_id")
    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x: the last block's output, not yet added to residual; both (tokens, hidden_size)."""
        normed, residual = self.input_layernorm.forward(x, residual)
        attended = self.self_attn.forward(normed)
        normed, residual = self.post_attention_layernorm.forward(attended, residual)
        return self.mlp.forward(normed), residual


class DecoderModel(BaseOP):
    """From token ids to the normalized output of the last layer."""

    def __init__(self, config: ModelConfig) -> None:
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.layers = OPList([DecoderLayer(config, i) for i in range(config.num_layers)])
        self.norm = RMSNormFused(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """input_ids: (tokens,) -> (tokens, hidden_size)"""
        x, residual = self.embed_tokens.forward(input_ids), None
        for layer in self.layers.op_list:
            x, residual = layer.forward(x, residual)
        return self.norm.forward(x, residual)[0]


class DecoderForCausalLM(BaseLLMModel):
    """The decoder with its head."""

    def __init__(self, config: ModelConfig) -> None:
        self.model = DecoderModel(config)
        tied = config.tie_word_embeddings
        self.lm_head = ParallelLMHead(
            config.vocab_size,
            config.hidden_size,
            tie_word_embeddings=tied,
            tied_embedding=self.model.embed_tokens if tied else None,
        )

    def forward(self) -> torch.Tensor:
        hidden = self.model.forward(get_global_ctx().batch.input_ids)
        return self.lm_head.forward(hidden)
