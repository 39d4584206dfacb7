"""Hands out pages and takes them back, as plainly as can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from minisgl.kvcache import BaseCacheHandle
from minisgl.kvcache.base import MatchResult
from minisgl.utils import div_ceil

if TYPE_CHECKING:
    from minisgl.core import Req

    from .utils import PendingReq


class _NoPrefix(BaseCacheHandle):
    """A hold on nothing: no prefix is kept."""

    def get_matched_indices(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.int32)


class CacheManager:
    """Free pages in a list; a request's pages go back when it is finished."""

    def __init__(self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str) -> None:
        self.page_size, self.page_table = page_size, page_table
        self._free_pages = list(range(num_pages))

    def match_req(self, req: PendingReq) -> MatchResult:
        return MatchResult(_NoPrefix(0))

    @property
    def available_size(self) -> int:
        return len(self._free_pages) * self.page_size

    def lock(self, handle: BaseCacheHandle) -> None:
        pass

    def unlock(self, handle: BaseCacheHandle) -> None:
        pass

    def allocate_paged(self, reqs: list[Req]) -> None:
        size = self.page_size
        for req in reqs:
            for page in range(div_ceil(req.cached_len, size), div_ceil(req.device_len, size)):
                first = self._free_pages.pop() * size
                slots = torch.arange(first, first + size, dtype=torch.int32)
                self.page_table[req.table_idx, page * size : (page + 1) * size] = slots

    def cache_req(self, req: Req, *, finished: bool) -> None:
        if finished:
            slots = self.page_table[req.table_idx, : req.cached_len : self.page_size]
            self._free_pages += (slots // self.page_size).tolist()

    def check_integrity(self, running: Iterable[Req] = ()) -> None:
        pass

    @contextmanager
    def lazy_free_region(self) -> Iterator[None]:
        yield
