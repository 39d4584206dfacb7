"""What every KV pool offers, and the handle by which a request holds a cached prefix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch


class BaseKVCachePool(ABC):
    """Memory for the K and V of every layer, handed out in pages of page_size slots.

    Slot s is place s % page_size of page s // page_size; it holds one token.
    """

    @abstractmethod
    def k_cache(self, index: int) -> torch.Tensor:
        """Return K of layer index: (num_pages, page_size, kv_heads, head_dim)."""

    @abstractmethod
    def v_cache(self, index: int) -> torch.Tensor:
        """Return V of layer index: (num_pages, page_size, kv_heads, head_dim)."""

    @abstractmethod
    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        """Write k, v: (tokens, kv_heads, head_dim) of a layer to the slots out_loc: (tokens,).

        out_loc: int32 or int64, in any order. What lies in other slots and layers stays.
        """

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the pool lies."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """What K and V are stored as."""

    @property
    @abstractmethod
    def num_layers(self) -> int:
        """Layers that have K and V in the pool."""


@dataclass(frozen=True)
class BaseCacheHandle(ABC):
    """A request's hold on the first cached_len tokens of its prompt, found in a prefix cache."""

    cached_len: int

    @abstractmethod
    def get_matched_indices(self) -> torch.Tensor:
        """Return the pool slots of the cached tokens: (cached_len,)."""


class MatchResult(NamedTuple):
    """What a prefix cache holds of some tokens: a handle on their longest cached prefix."""

    cuda_handle: BaseCacheHandle
