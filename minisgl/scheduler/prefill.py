"""Which waiting requests start, and how much of their prompts is computed in one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from minisgl.core import Batch, Req
from minisgl.utils import align_ceil
from minisgl.utils.device import pin

from .utils import PendingReq

if TYPE_CHECKING:
    from minisgl.kvcache import BaseCacheHandle
    from minisgl.message import UserMsg

    from .cache import CacheManager
    from .decode import DecodeManager
    from .table import TableManager


PREFILLS_IN_A_ROW = 8
"""Prefill batches that may follow each other while running requests wait for their next token."""


class ChunkedReq(Req):
    """The beginning of a request's prompt. Its pass fills the pool; what it samples is dropped."""

    def append_host(self, next_token: torch.Tensor | int) -> None:
        raise AssertionError(f"request {self.uid}: a chunk of a prompt has no next token")

    @property
    def can_decode(self) -> bool:
        return False


@dataclass
class PrefillAdder:
    """Fills one prefill batch, request by request.

    token_budget: tokens that the batch may still compute. reserved_size: tokens of the pages that
    were promised to admitted requests and are not taken yet.
    """

    token_budget: int
    reserved_size: int
    cache_manager: CacheManager
    table_manager: TableManager

    def _try_allocate_one(self, req: PendingReq) -> tuple[BaseCacheHandle, int] | None:
        """Admit req: return its locked prefix and its row, both filled; None if it must wait."""
        if self.table_manager.available_size == 0:
            return None
        handle = self.cache_manager.match_req(req).cuda_handle
        self.cache_manager.lock(handle)  # first, since what is locked is no longer available
        needed = self._pages(req.input_len + req.output_len) - handle.cached_len
        if needed + self.reserved_size > self.cache_manager.available_size:
            self.cache_manager.unlock(handle)
            return None
        row, tables = self.table_manager.allocate(), self.table_manager
        tables.page_table[row, : handle.cached_len] = handle.get_matched_indices()
        prompt = pin(req.input_ids, tables.token_pool.device)
        tables.token_pool[row, : req.input_len].copy_(prompt, non_blocking=True)
        return handle, row

    def _add_one_req(
        self,
        pending_req: PendingReq,
        cache_handle: BaseCacheHandle,
        table_idx: int,
        cached_len: int,
    ) -> Req:
        """Return the batch's part of an admitted request, of which cached_len tokens are done."""
        end = min(pending_req.input_len, cached_len + self.token_budget)
        self.token_budget -= end - cached_len
        total = pending_req.input_len + pending_req.output_len
        self.reserved_size += self._pages(total) - self._pages(cached_len)
        kind = Req if end == pending_req.input_len else ChunkedReq
        return kind(
            input_ids=pending_req.input_ids[:end],
            table_idx=table_idx,
            cached_len=cached_len,
            output_len=pending_req.output_len,
            uid=pending_req.uid,
            sampling_params=pending_req.sampling_params,
            cache_handle=cache_handle,
        )

    def _pages(self, tokens: int) -> int:
        return align_ceil(tokens, self.cache_manager.page_size)

    def try_add_one(self, pending_req: PendingReq) -> Req | None:
        """Return what the batch computes of the request; None when it has to wait."""
        if self.token_budget == 0:
            return None
        if (chunk := pending_req.chunked_req) is not None:
            return self._add_one_req(
                pending_req, chunk.cache_handle, chunk.table_idx, chunk.cached_len
            )
        if (admitted := self._try_allocate_one(pending_req)) is None:
            return None
        handle, row = admitted
        return self._add_one_req(pending_req, handle, row, handle.cached_len)


@dataclass
class PrefillManager:
    """The queue of requests that wait, first come first served."""

    cache_manager: CacheManager
    table_manager: TableManager
    decode_manager: DecodeManager
    pending_list: list[PendingReq] = field(default_factory=list)
    _in_a_row: int = field(default=0, init=False)

    def add_one_req(self, req: UserMsg) -> None:
        """Put a request at the end of the queue."""
        self.pending_list.append(PendingReq(req.uid, req.input_ids, req.sampling_params))

    def schedule_next_batch(self, prefill_budget: int) -> Batch | None:
        """Return the next prefill batch, of at most prefill_budget tokens; None if nothing may run.

        The first request that has to wait makes those behind it wait too, so that none starves.
        Between two chunks of a prompt, and after PREFILLS_IN_A_ROW batches, the running requests
        get one step.
        """
        if self._in_a_row >= PREFILLS_IN_A_ROW and self.decode_manager.runnable:
            self._in_a_row = 0
            return None
        adder = PrefillAdder(
            token_budget=prefill_budget,
            reserved_size=self.decode_manager.inflight_tokens if self.pending_list else 0,
            cache_manager=self.cache_manager,
            table_manager=self.table_manager,
        )
        reqs: list[Req] = []
        for pending in self.pending_list:
            if (req := adder.try_add_one(pending)) is None:
                break
            reqs.append(req)
            pending.chunked_req = req if isinstance(req, ChunkedReq) else None
        if not reqs:
            self._in_a_row = 0
            return None
        is_cut = isinstance(reqs[-1], ChunkedReq)  # only the last can be: it used up the budget
        self._in_a_row = PREFILLS_IN_A_ROW if is_cut else self._in_a_row + 1
        self.pending_list = self.pending_list[len(reqs) - is_cut :]
        return Batch(reqs, phase="prefill")

    def abort_req(self, uid: int) -> Req | None:
        """Drop request uid from the queue; return its chunk, if one was launched."""
        for i, pending in enumerate(self.pending_list):
            if pending.uid == uid:
                return self.pending_list.pop(i).chunked_req
        return None

    @property
    def runnable(self) -> bool:
        """Whether any request waits."""
        return bool(self.pending_list)
