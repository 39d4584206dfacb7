"""Where K and V are kept, and how requests share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from minisgl.utils import Registry

from .base import (
    BaseCacheHandle,
    BaseKVCachePool,
    BasePrefixCache,
    InsertResult,
    MatchResult,
    SizeInfo,
)
from .mha_pool import MHAKVCache

if TYPE_CHECKING:
    from minisgl.models.config import ModelConfig

__all__ = [
    "SUPPORTED_CACHE_MANAGER",
    "BaseCacheHandle",
    "BaseKVCachePool",
    "BasePrefixCache",
    "InsertResult",
    "MatchResult",
    "SizeInfo",
    "create_kvcache_pool",
    "create_prefix_cache",
]


class CacheManagerCreator(Protocol):
    """Makes a prefix cache whose slots lie on device."""

    def __call__(self, device: torch.device) -> BasePrefixCache: ...


SUPPORTED_CACHE_MANAGER = Registry[CacheManagerCreator]("prefix cache")


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


@SUPPORTED_CACHE_MANAGER.register("naive")
def create_naive_cache(device: torch.device) -> BasePrefixCache:
    """Return a cache that shares nothing."""
    from .naive_cache import NaivePrefixCache

    return NaivePrefixCache(device)


def create_prefix_cache(device: torch.device, type: str) -> BasePrefixCache:
    """Return an empty prefix cache of that type; raises ValueError for an unknown one."""
    return SUPPORTED_CACHE_MANAGER[type](device)
