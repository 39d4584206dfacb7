"""Which class runs which architecture of a checkpoint's config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .decoder import DecoderForCausalLM

if TYPE_CHECKING:
    from .config import ModelConfig

__all__ = ["get_model_class"]

_MODEL_REGISTRY = {
    "LlamaForCausalLM": DecoderForCausalLM,
    "MistralForCausalLM": DecoderForCausalLM,
    "Qwen2ForCausalLM": DecoderForCausalLM,
    "Qwen3ForCausalLM": DecoderForCausalLM,
}


def get_model_class(model_architecture: str, model_config: ModelConfig) -> DecoderForCausalLM:
    """Return a model of the architecture, without weights; raises ValueError for an unknown one."""
    if model_architecture not in _MODEL_REGISTRY:
        known = ", ".join(_MODEL_REGISTRY)
        raise ValueError(
            f"architecture {model_architecture!r} is not supported; these are: {known}"
        )
    return _MODEL_REGISTRY[model_architecture](model_config)
