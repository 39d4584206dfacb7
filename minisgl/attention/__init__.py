"""Attention backends, and how one is chosen by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from minisgl.utils import Registry, init_logger

from .base import BaseAttnBackend, BaseAttnMetadata, HybridBackend

if TYPE_CHECKING:
    from minisgl.models.config import ModelConfig

__all__ = [
    "SUPPORTED_ATTENTION_BACKENDS",
    "BaseAttnBackend",
    "BaseAttnMetadata",
    "create_attention_backend",
    "validate_attn_backend",
]

logger = init_logger(__name__)


class BackendCreator(Protocol):
    """Makes a backend for a model; its module is imported only when it is asked for."""

    def __call__(self, config: ModelConfig) -> BaseAttnBackend: ...


SUPPORTED_ATTENTION_BACKENDS = Registry[BackendCreator]("attention backend")


@SUPPORTED_ATTENTION_BACKENDS.register("torch")
def create_torch_backend(config: ModelConfig) -> BaseAttnBackend:
    """Return the backend that needs nothing but PyTorch."""
    from .torch_native import TorchAttentionBackend

    return TorchAttentionBackend(config)


def validate_attn_backend(backend: str, allow_auto: bool = True) -> str:
    """Return backend, a name, a pair "prefill,decode" or "auto"; raises ValueError for others."""
    if backend == "auto" and allow_auto:
        return backend
    names = backend.split(",")
    if len(names) > 2:
        raise ValueError(f"{backend!r} names {len(names)} backends: give one, or prefill,decode")
    SUPPORTED_ATTENTION_BACKENDS.assert_supported(names)
    return backend


def create_attention_backend(backend: str, config: ModelConfig) -> BaseAttnBackend:
    """Return the backend of that name, or the pair's two backends behind one interface."""
    names = "torch" if backend == "auto" else validate_attn_backend(backend)
    logger.info("attention backend: %s (asked for: %s)", names, backend)
    made = [SUPPORTED_ATTENTION_BACKENDS[name](config) for name in names.split(",")]
    return made[0] if len(made) == 1 else HybridBackend(*made)
