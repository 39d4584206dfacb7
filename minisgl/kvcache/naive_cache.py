"""The prefix cache that caches nothing, for comparison and for models that can't share K and V."""

from __future__ import annotations

import torch

from .base import BaseCacheHandle, BasePrefixCache, InsertResult, MatchResult, SizeInfo


class NaiveCacheHandle(BaseCacheHandle):
    """A hold on nothing."""

    empty_tensor: torch.Tensor

    def __init__(self) -> None:
        super().__init__(cached_len=0)

    def get_matched_indices(self) -> torch.Tensor:
        return self.empty_tensor


class NaivePrefixCache(BasePrefixCache):
    """Finds no prefix and keeps none, so that every slot goes back to its request."""

    def __init__(self, device: torch.device) -> None:
        NaiveCacheHandle.empty_tensor = torch.empty(0, dtype=torch.int32, device=device)

    def lock_handle(self, handle: BaseCacheHandle, unlock: bool = False) -> None:
        pass

    def match_prefix(self, input_ids: torch.Tensor) -> MatchResult:
        return MatchResult(NaiveCacheHandle())

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> InsertResult:
        return InsertResult(0, NaiveCacheHandle())

    def evict(self, size: int) -> torch.Tensor:
        if size > 0:
            raise RuntimeError(f"{size} tokens to evict, but the naive cache holds none")
        return NaiveCacheHandle.empty_tensor

    def reset(self) -> None:
        pass

    @property
    def size_info(self) -> SizeInfo:
        return SizeInfo(0, 0)

    def all_indices(self) -> torch.Tensor:
        return NaiveCacheHandle.empty_tensor

    def check_integrity(self) -> None:
        pass
