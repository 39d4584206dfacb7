"""Two methods of the cache manager, with a fault in each."""

from __future__ import annotations

import torch

from minisgl.core import Req
from minisgl.scheduler.cache import CacheManager

LOST: list[int] | None = None
"""After part 1, as the methods stand: pages without an owner, by first slot."""

TWICE: list[int] | None = None
"""After part 1, as the methods stand: pages with more than one owner, by first slot."""

FREE: list[int] | None = None
"""After part 2, with the methods mended: `free_slots`, in its order."""


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
        twice = slice(0, cached_len)
        self._free(row[twice])
        if finished:
            self._free(row[handle.cached_len : length])
        else:
            self.lock(handle)
            row[twice] = handle.get_matched_indices()[twice]
            req.cache_handle = handle
        self.unlock(old)
