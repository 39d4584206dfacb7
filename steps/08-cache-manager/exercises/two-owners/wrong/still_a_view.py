"""Mends the duplicates alone: what is freed is still a view of the row."""

from __future__ import annotations

import torch

from minisgl.core import Req
from minisgl.scheduler.cache import CacheManager

LOST: list[int] | None = [12, 16]
"""The pages of B's copy: when the region ends, the view of B's row shows other slots."""

TWICE: list[int] | None = [0, 4]
"""Those other slots: they are A's copy, which the prefix cache owns."""

FREE: list[int] | None = [28, 12, 16, 24]
"""A took 24 from the front. Page 8 is full and goes to the cache, 24 holds one token."""


class Manager(CacheManager):
    """The chapter's cache manager, with two methods of its own."""

    def _free(self, indices: torch.Tensor) -> None:
        """Free the pages of these slots, which are whole pages but for the last one's end."""
        pages = indices[:: self.page_size]
        if self._freed is None:
            self.free_slots = torch.cat([self.free_slots, pages])
        else:
            self._freed.append(pages)

    def cache_req(self, req: Req, *, finished: bool) -> None:
        """Offer the prefix cache what is computed of req, and free what is not wanted."""
        row, length = self.page_table[req.table_idx], req.cached_len
        old = req.cache_handle
        result = self.prefix_cache.insert_prefix(req.input_ids[:length], row[:length])
        cached_len, handle = result
        twice = slice(old.cached_len, cached_len)
        self._free(row[twice])
        if finished:
            self._free(row[handle.cached_len : length])
        else:
            self.lock(handle)
            row[twice] = handle.get_matched_indices()[twice]
            req.cache_handle = handle
        self.unlock(old)
