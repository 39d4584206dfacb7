"""Models, and how their weights are read."""

from __future__ import annotations

from .base import BaseLLMModel
from .config import ModelConfig, RotaryConfig
from .register import get_model_class
from .weight import load_weight

__all__ = ["BaseLLMModel", "ModelConfig", "RotaryConfig", "create_model", "load_weight"]


def create_model(model_config: ModelConfig) -> BaseLLMModel:
    """Return the model that model_config describes, its weights still empty.

    Raises ValueError when the first architecture is missing or unknown.
    """
    if not model_config.architectures:
        raise ValueError("the checkpoint's config names no architecture")
    return get_model_class(model_config.architectures[0], model_config)
