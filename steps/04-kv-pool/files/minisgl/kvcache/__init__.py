"""Where K and V are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .base import BaseCacheHandle, BaseKVCachePool
from .mha_pool import MHAKVCache

if TYPE_CHECKING:
    from minisgl.models.config import ModelConfig

__all__ = ["BaseCacheHandle", "BaseKVCachePool", "create_kvcache_pool"]


def create_kvcache_pool(
    model_config: ModelConfig,
    num_pages: int,
    page_size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> BaseKVCachePool:
    """Return a pool of num_pages * page_size slots that fits the model's layers and heads."""
    return MHAKVCache(
        num_kv_heads=model_config.num_kv_heads,
        num_layers=model_config.num_layers,
        head_dim=model_config.head_dim,
        num_pages=num_pages,
        page_size=page_size,
        dtype=dtype,
        device=device,
    )
