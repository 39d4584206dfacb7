"""Chapter 07: who waits, who runs, and what a batch takes, each looked at by itself."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal
from stub_engine import user


def make_req(uid: int, tokens: int = 3, output: int = 4, cached: int = 0) -> Any:
    """Probe side: a request in row uid."""
    from minisgl.core import Req, SamplingParams

    ids = torch.arange(tokens, dtype=torch.int32)
    return Req(ids, uid, cached, output, uid, SamplingParams(max_tokens=output), None)


class Pages:
    """Stands for the cache manager: free tokens and one cached prefix, which locking takes away."""

    def __init__(self, free: int, cached: int = 0, page_size: int = 1) -> None:
        from minisgl.kvcache import BaseCacheHandle

        class Handle(BaseCacheHandle):
            def get_matched_indices(self) -> torch.Tensor:
                return torch.arange(50, 50 + self.cached_len, dtype=torch.int32)

        self.free, self.cached, self.page_size = free, cached, page_size
        self.handle, self.locks, self.calls = Handle(cached), 0, []

    def match_req(self, req: Any) -> Any:
        from types import SimpleNamespace

        self.calls.append("match")
        return SimpleNamespace(cuda_handle=self.handle)

    def lock(self, handle: Any) -> None:
        self.calls.append("lock")
        self.locks += 1

    def unlock(self, handle: Any) -> None:
        self.calls.append("unlock")
        self.locks -= 1

    @property
    def available_size(self) -> int:
        self.calls.append("ask")
        return self.free + (0 if self.locks else self.cached)


def tables(rows: int = 4) -> Any:
    """Probe side: a table manager of that many rows of 16 columns."""
    from minisgl.scheduler.table import TableManager

    return TableManager(rows, torch.zeros(rows, 16, dtype=torch.int32))


def adder(budget: int, reserved: int, pages: Pages, rows: int = 4) -> Any:
    from minisgl.scheduler.prefill import PrefillAdder

    return PrefillAdder(budget, reserved, pages, tables(rows))


def pending(uid: int, tokens: int, output: int = 1) -> Any:
    from minisgl.core import SamplingParams
    from minisgl.scheduler.utils import PendingReq

    ids = torch.arange(10, 10 + tokens, dtype=torch.int32)
    return PendingReq(uid, ids, SamplingParams(max_tokens=output))


def probe_a_waiting_request_knows_its_lengths(seed):
    return [[p.uid, p.input_len, p.output_len] for p in (pending(3, 5, 7), pending(4, 1))]


def judge_a_waiting_request_knows_its_lengths(seed, got):
    equal(got, [[3, 5, 7], [4, 1, 1]], "uid, input_len and output_len")


def probe_messages_carry_what_they_are_made_of(seed):
    from minisgl import message
    from minisgl.core import SamplingParams

    ids = torch.tensor([5])
    asked = message.UserMsg(uid=1, input_ids=ids, sampling_params=SamplingParams())
    stop = message.AbortBackendMsg(uid=2)
    said = message.DetokenizeMsg(uid=3, next_token=9, finished=True)
    refusal = message.DetokenizeMsg(4, -1, True, error="no")
    kinds = [isinstance(x, message.BaseBackendMsg) for x in (asked, stop, said)]
    values = [asked.uid, asked.input_ids.tolist(), asked.sampling_params.max_tokens, stop.uid]
    values += [said.uid, said.next_token, said.finished, said.error, refusal.error]
    return [kinds, isinstance(said, message.BaseTokenizerMsg), values]


def judge_messages_carry_what_they_are_made_of(seed, got):
    equal(got[:2], [[True, True, False], True], "which are for the scheduler, and the other one")
    equal(got[2], [1, [5], 1024, 2, 3, 9, True, None, "no"], "their fields")


def probe_the_running_requests_stay_until_they_need_no_step(seed):
    from minisgl.scheduler.decode import DecodeManager

    manager = DecodeManager(page_size=1)
    idle = [manager.runnable, manager.schedule_next_batch() is None]
    reqs = [make_req(uid, output=output) for uid, output in ((8, 3), (2, 1), (5, 2))]
    found = []
    for _ in range(4):
        for req in reqs:
            if req.can_decode:
                req.complete_one()
        manager.filter_reqs(reqs)
        batch = manager.schedule_next_batch()
        found.append([manager.runnable, batch and [batch.phase, [r.uid for r in batch.reqs]]])
        reqs = batch.reqs if batch else []
    return [idle, found]


def judge_the_running_requests_stay_until_they_need_no_step(seed, got):
    equal(got[0], [False, True], "runnable at first; no batch")
    want = [[True, ["decode", [5, 8]]], [True, ["decode", [8]]], [False, None], [False, None]]
    equal(got[1], want, "runnable and the batch after each step")


def probe_a_running_request_can_be_taken_out(seed):
    from minisgl.scheduler.decode import DecodeManager

    manager, reqs = DecodeManager(1), [make_req(uid) for uid in (4, 7, 1)]
    manager.filter_reqs(reqs)
    found = [manager.abort_req(99) is None, manager.abort_req(7) is reqs[1]]
    found += [manager.abort_req(7) is None, [r.uid for r in manager.schedule_next_batch().reqs]]
    manager.remove_req(reqs[0])
    manager.remove_req(reqs[0])
    return [*found, [r.uid for r in manager.schedule_next_batch().reqs]]


def judge_a_running_request_can_be_taken_out(seed, got):
    equal(got[:3], [True] * 3, "no request 99; request 7, once")
    equal(got[3:], [[1, 4], [1]], "who runs after the abort of 7 and the removal of 4")


PROMISES = (
    (1, (4, 3, 1), 7 - 1),
    (4, (4, 3, 1), 8 - 4),
    (4, (5, 4, 3), 12 - 4),
    (16, (3, 9, 2), 0),
)
"""Page size; tokens, output and cached_len of a request; tokens of the pages it may still take."""


def probe_running_requests_may_still_take_whole_pages(seed):
    from minisgl.scheduler.decode import DecodeManager

    found = []
    for size, (tokens, output, cached), _ in PROMISES:
        manager = DecodeManager(size)
        found.append([manager.inflight_tokens])
        for uid in (0, 1):
            manager.filter_reqs([make_req(uid, tokens, output, cached)])
            found[-1].append(manager.inflight_tokens)
    return found


def judge_running_requests_may_still_take_whole_pages(seed, got):
    want = [[0, tokens, 2 * tokens] for _, _, tokens in PROMISES]
    equal(got, want, "inflight_tokens of none, one and two requests")


ADMISSIONS = (
    # free, cached, reserved, rows, page size -> admitted, calls
    ((6, 4, 0, 1, 1), True, ["match", "lock", "ask"]),
    ((5, 4, 0, 1, 1), False, ["match", "lock", "ask", "unlock"]),
    ((7, 4, 1, 1, 1), True, ["match", "lock", "ask"]),
    ((7, 4, 2, 1, 1), False, ["match", "lock", "ask", "unlock"]),
    ((99, 4, 0, 0, 1), False, []),
    ((8, 4, 0, 1, 4), True, ["match", "lock", "ask"]),
    ((7, 4, 0, 1, 4), False, ["match", "lock", "ask", "unlock"]),
)


def probe_a_prefix_is_locked_before_the_free_pages_are_counted(seed):
    found = []
    for (free, cached, reserved, rows, size), _, _ in ADMISSIONS:
        pages = Pages(free, cached, size)
        made = adder(100, reserved, pages, max(rows, 1))
        if rows == 0:
            made.table_manager.allocate()
        req = made.try_add_one(pending(1, 7, 3))
        found.append([req is not None, pages.calls, made.table_manager.available_size])
    return found


def judge_a_prefix_is_locked_before_the_free_pages_are_counted(seed, got):
    for (case, admitted, calls), found in zip(ADMISSIONS, got, strict=True):
        what = "prompt 7, output 3; free {}, cached {}, reserved {}, rows {}, pages of {}"
        free_rows = case[3] - admitted
        equal(found, [admitted, calls, free_rows], what.format(*case))


def probe_an_admitted_request_has_its_prefix_and_prompt_in_its_row(seed):
    made = adder(100, 5, Pages(90, 4, 4))
    req, second = made.try_add_one(pending(3, 7, 3)), made.try_add_one(pending(5, 5, 2))
    row = made.table_manager.page_table[req.table_idx].tolist()
    ids = made.table_manager.token_pool[req.table_idx].tolist()
    handles = [r.cache_handle is made.cache_manager.handle for r in (req, second)]
    fields = [[r.uid, r.cached_len, r.device_len, r.max_device_len, type(r).__name__]
              for r in (req, second)]  # fmt: skip
    other = [second.table_idx != req.table_idx, made.cache_manager.locks]
    return [row, ids, fields, handles, other, [made.token_budget, made.reserved_size]]


def judge_an_admitted_request_has_its_prefix_and_prompt_in_its_row(seed, got):
    equal(got[0], [50, 51, 52, 53] + [0] * 12, "the row of the page table: the cached slots")
    equal(got[1], [*range(10, 17)] + [0] * 9, "the row of the token pool: the prompt")
    want = [[3, 4, 7, 10, "Req"], [5, 4, 5, 7, "Req"]]
    equal(got[2], want, "uid, cached_len, device_len, max_device_len, kind")
    equal(got[3:5], [[True, True], [True, 2]], "handles; another row for each, two locks")
    equal(got[5], [100 - 3 - 1, 5 + 8 + 4], "budget left; reserved tokens, in whole pages")


BUDGETS = ((4, (4, 3), 1), (4, (2, 2, 3), 2), (9, (4, 2, 3, 1), 3), (100, (1, 1, 1, 1), 4))
"""Budget, prompts, and how many of them the batch takes."""


def probe_a_batch_takes_prompts_until_its_budget_is_used_up(seed):
    found = []
    for budget, lengths, _ in BUDGETS:
        made = adder(budget, 0, Pages(90))
        reqs = [made.try_add_one(pending(uid, n)) for uid, n in enumerate(lengths)]
        found.append([sum(r is not None for r in reqs), made.table_manager.available_size])
    return found


def judge_a_batch_takes_prompts_until_its_budget_is_used_up(seed, got):
    for (budget, lengths, count), found in zip(BUDGETS, got, strict=True):
        equal(found, [count, 4 - count], f"requests, rows left; budget {budget}, {lengths}")


def probe_the_queue_is_first_come_first_served(seed):
    from minisgl.scheduler.decode import DecodeManager
    from minisgl.scheduler.prefill import PrefillManager

    pages = Pages(20)
    manager = PrefillManager(pages, tables(3), DecodeManager(1))
    found: list[Any] = [manager.runnable, manager.schedule_next_batch(9) is None]
    for uid in (7, 3, 9, 1, 5):
        manager.add_one_req(user(uid, [1, 2], 2))
    found += [manager.runnable, manager.abort_req(9), manager.abort_req(99)]
    for _ in range(2):
        batch = manager.schedule_next_batch(4)
        found.append([batch.phase, [r.uid for r in batch.reqs]])
    found.append(manager.schedule_next_batch(4) is None)
    return [*found, manager.runnable, [p.uid for p in manager.pending_list], pages.locks]


def judge_the_queue_is_first_come_first_served(seed, got):
    equal(got[:5], [False, True, True, None, None], "empty; filled; aborts give back nothing")
    equal(got[5:7], [["prefill", [7, 3]], ["prefill", [1]]], "two batches of at most 4 tokens")
    equal(got[7:], [True, True, [5], 3], "no row is left for request 5; three locks are held")
