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


class InsertResult(NamedTuple):
    """What an insertion found and made.

    cached_len: the tokens that had been in the cache before; their slots are the cache's, not the
    inserter's. handle: on all that is cached of the inserted tokens now.
    """

    cached_len: int
    handle: BaseCacheHandle


class SizeInfo(NamedTuple):
    """How many tokens a prefix cache holds: those that it may evict, and those that are locked."""

    evictable_size: int
    protected_size: int

    @property
    def total_size(self) -> int:
        """Tokens in the cache."""
        return self.evictable_size + self.protected_size


class BasePrefixCache(ABC):
    """Remembers which pool slots hold the K and V of which token sequences.

    Sequences and slots come in whole pages; a last part that fills no page is left out. What is
    locked stays, what is not may be evicted. input_ids: (tokens,) int32 on the CPU.
    """

    @abstractmethod
    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        """Protect the handle's tokens from eviction, or take one such protection away.

        Matching and inserting lock nothing; until a handle is locked, an eviction may undo it.
        """

    @abstractmethod
    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        """Return a handle on the longest cached prefix of input_ids; nothing cached: length 0."""

    @abstractmethod
    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        """Cache input_ids, whose K and V lie in the slots indices: (tokens,).

        Slots of tokens that are cached already are not taken: they stay the caller's to free.
        """

    @abstractmethod
    def evict(self, size: int) -> torch.Tensor:
        """Drop at least size unlocked tokens, the longest unused first, and return their slots.

        Raises RuntimeError when fewer tokens are evictable; nothing is dropped then.
        """

    @abstractmethod
    def reset(self) -> None:
        """Forget everything; nothing may be locked."""

    @property
    @abstractmethod
    def size_info(self) -> SizeInfo:
        """How many tokens are cached."""

    @abstractmethod
    def all_indices(self) -> torch.Tensor:
        """Return the slots of all cached tokens, in no particular order."""

    @abstractmethod
    def check_integrity(self) -> None:
        """Raise RuntimeError, naming what is wrong, if the cache contradicts itself."""
