"""Who owns each page of the KV pool: nobody, the prefix cache, or one running request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from minisgl.kvcache import create_prefix_cache
from minisgl.utils import div_ceil
from minisgl.utils.device import pin

if TYPE_CHECKING:
    from minisgl.core import Req
    from minisgl.kvcache import BaseCacheHandle, MatchResult

    from .utils import PendingReq


class CacheManager:
    """Hands pages out and takes them back; keeps what finished requests leave in a prefix cache.

    free_slots: (free pages,) int32, the first slot of each. A request owns the pages of its row
    from its handle's cached_len up to its own cached_len; what lies before is the prefix cache's.
    """

    def __init__(self, num_pages: int, page_size: int, page_table: torch.Tensor, type: str) -> None:
        self.num_pages, self.page_size, self.page_table = num_pages, page_size, page_table
        self.device = page_table.device
        pages = torch.arange(num_pages, dtype=torch.int32, device=self.device)
        self.free_slots = pages * page_size
        self.prefix_cache = create_prefix_cache(self.device, type)
        self._freed: list[torch.Tensor] | None = None

    def match_req(self, req: PendingReq) -> MatchResult:
        """Look up the prompt but for its last token, which must be computed to get logits."""
        return self.prefix_cache.match_prefix(req.input_ids[: req.input_len - 1])

    @property
    def available_size(self) -> int:
        """Tokens of the pages that are free or can be made free by an eviction."""
        return self.prefix_cache.size_info.evictable_size + len(self.free_slots) * self.page_size

    def lock(self, handle: BaseCacheHandle) -> None:
        """Protect a cached prefix from eviction."""
        self.prefix_cache.lock_handle(handle, unlock=False)

    def unlock(self, handle: BaseCacheHandle) -> None:
        """Take one protection away."""
        self.prefix_cache.lock_handle(handle, unlock=True)

    def allocate_paged(self, reqs: list[Req]) -> None:
        """Give each request the pages that its tokens up to device_len need and it lacks."""
        size = self.page_size
        spans = [
            (req.table_idx, div_ceil(req.cached_len, size), div_ceil(req.device_len, size))
            for req in reqs
        ]
        needed = sum(last - first for _, first, last in spans)
        if needed:
            slots = self._page_to_token(self._allocate(needed))
            _write_page_table(self.page_table, slots, spans, size)

    def cache_req(self, req: Req, *, finished: bool) -> None:
        """Offer the prefix cache what is computed of req, and free what is not wanted.

        A finished request gives up all its pages. Another one goes on with a locked handle on what
        is cached now; where another request was faster, it goes on with that one's slots.
        """
        row, length = self.page_table[req.table_idx], req.cached_len
        old = req.cache_handle
        ids, slots = req.input_ids[:length], row[:length]
        cached_len, handle = self.prefix_cache.insert_prefix(ids, slots)
        twice = slice(old.cached_len, cached_len)
        self._free(row[twice])
        if finished:
            self._free(row[handle.cached_len : length])
        else:
            self.lock(handle)
            row[twice] = handle.get_matched_indices()[twice]
            req.cache_handle = handle
        self.unlock(old)

    def check_integrity(self, running: Iterable[Req] = ()) -> None:
        """Raise RuntimeError, naming page and owners, unless each page has exactly one owner.

        running: all requests that have a row in the page table.
        """
        self.prefix_cache.check_integrity()
        owners = {"the free list": self.free_slots}
        owners["the prefix cache"] = self.prefix_cache.all_indices()[:: self.page_size]
        for req in running:
            owners[f"request {req.uid}"] = self._own_pages(req)
        slots = torch.cat(list(owners.values())).long()
        if len(slots) and int(slots.min()) < 0:
            raise RuntimeError(f"slot {int(slots.min())} is owned, but there is no such slot")
        counts = torch.bincount(slots, minlength=self.num_pages * self.page_size)
        due = torch.zeros_like(counts)
        due[: self.num_pages * self.page_size : self.page_size] = 1
        wrong = (counts != due).nonzero().flatten()
        if len(wrong):
            slot = int(wrong[0])
            names = [name for name, slots in owners.items() if (slots == slot).any()]
            if len(names) == 1:
                names[0] += ", more than once or outside the pool"
            raise RuntimeError(
                f"the page at slot {slot} belongs to {' and '.join(names) or 'nobody'} "
                f"({len(wrong)} of {self.num_pages} pages are wrong)"
            )

    def _own_pages(self, req: Req) -> torch.Tensor:
        """Return the first slots of the pages that are req's alone, once its row is seen right."""
        row, start = self.page_table[req.table_idx, : req.cached_len], req.cache_handle.cached_len
        if not torch.equal(row[:start], req.cache_handle.get_matched_indices()):
            raise RuntimeError(f"request {req.uid}: its row is not what its cached prefix says")
        pages = row[start :: self.page_size]
        if not torch.equal(row[start:], self._page_to_token(pages)[: len(row) - start]):
            raise RuntimeError(f"request {req.uid}: its slots are not whole pages")
        return pages

    @contextmanager
    def lazy_free_region(self) -> Iterator[None]:
        """Gather what is freed inside the with block, and give it back in one go at its end."""
        self._freed = []
        try:
            yield
        finally:
            if self._freed:  # this copies the whole list: not in each step
                self.free_slots = torch.cat([self.free_slots, *self._freed])
            self._freed = None

    def _allocate(self, needed_pages: int) -> torch.Tensor:
        """Take pages, evicting for those that are missing: (needed_pages,) first slots."""
        missing = needed_pages - len(self.free_slots)
        if missing > 0:
            self._free(self.prefix_cache.evict(missing * self.page_size))
        assert needed_pages <= len(self.free_slots), (
            f"{needed_pages} pages are needed and {len(self.free_slots)} are free: "
            "a request was admitted that had to wait"
        )
        allocated = self.free_slots[:needed_pages]
        self.free_slots = self.free_slots[needed_pages:]
        return allocated

    def _free(self, indices: torch.Tensor) -> None:
        """Free the pages of these slots, which are whole pages but for the last one's end."""
        pages = indices[:: self.page_size].to(torch.int32, copy=True)
        if self._freed is None:
            self.free_slots = torch.cat([self.free_slots, pages])
        else:
            self._freed.append(pages)

    def _page_to_token(self, pages: torch.Tensor) -> torch.Tensor:
        """Return all slots of the pages that begin at these slots."""
        if self.page_size == 1:
            return pages
        offsets = torch.arange(self.page_size, dtype=torch.int32, device=self.device)
        return (pages.unsqueeze(1) + offsets).flatten()


def _write_page_table(
    page_table: torch.Tensor,
    allocated: torch.Tensor,
    allocation_info: list[tuple[int, int, int]],
    page_size: int,
) -> None:
    """Enter slots into rows. allocation_info: for each row its number, first page, end page."""
    rows, first, last = np.array(allocation_info).T
    counts = (last - first) * page_size
    before = counts.cumsum() - counts
    columns = np.arange(counts.sum()) + np.repeat(first * page_size - before, counts)
    where = torch.from_numpy(np.stack([np.repeat(rows, counts), columns]))
    where = pin(where, page_table.device).to(page_table.device, non_blocking=True)
    page_table[where[0], where[1]] = allocated
