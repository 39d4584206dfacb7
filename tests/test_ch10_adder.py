"""Chapter 10: how a batch takes the next part of a prompt, and who holds what in between."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, error_of, refused
from stub_engine import stub_scheduler, user


def parts(budget: int = 4, reserved: int = 0, **settings: Any) -> tuple[Any, Any]:
    """A scheduler's managers, and a batch to fill."""
    from minisgl.scheduler.prefill import PrefillAdder

    made = stub_scheduler(**settings)
    return made, PrefillAdder(budget, reserved, made.cache_manager, made.table_manager)


def pending(uid: int, tokens: int, output: int = 3) -> Any:
    from minisgl.core import SamplingParams
    from minisgl.scheduler.utils import PendingReq

    params = SamplingParams(max_tokens=output)
    return PendingReq(uid, torch.arange(tokens, dtype=torch.int32), params)


def fields(req: Any) -> list[Any]:
    """Kind, cached_len, device_len and whether it may decode."""
    return [type(req).__name__, req.cached_len, req.device_len, req.can_decode]


def counted(cache_manager: Any) -> list[str]:
    """The list in which locks and look-ups will be noted."""
    calls: list[str] = []
    for name in ("match_req", "lock", "unlock"):
        plain = getattr(cache_manager, name)
        setattr(cache_manager, name, lambda x, n=name, f=plain: (calls.append(n), f(x))[1])
    return calls


def probe_a_part_goes_on_where_the_last_one_ended(seed):
    made, adder = parts(budget=4, page_size=4)
    calls, waiting = counted(made.cache_manager), pending(3, 10)
    req = adder.try_add_one(waiting)
    found, rows, handles = [fields(req)], {req.table_idx}, {id(req.cache_handle)}
    left = [[adder.token_budget, adder.reserved_size]]
    for budget in (3, 9):
        req.complete_one()
        waiting.chunked_req = req
        adder.token_budget, adder.reserved_size = budget, 0
        req = adder.try_add_one(waiting)
        found.append(fields(req))
        rows.add(req.table_idx)
        handles.add(id(req.cache_handle))
        left.append([adder.token_budget, adder.reserved_size])
    return [found, left, len(rows), len(handles), calls, req.max_device_len]


def judge_a_part_goes_on_where_the_last_one_ended(seed, got):
    want = [["ChunkedReq", 0, 4, False], ["ChunkedReq", 4, 7, False], ["Req", 7, 10, True]]
    equal(got[0], want, "kind, cached_len, device_len and can_decode of three parts")
    equal(got[1], [[0, 16], [0, 12], [6, 8]], "budget left; tokens of the pages it may still take")
    equal(got[2:4], [1, 1], "rows and handles of the three")
    equal(got[4], ["match_req", "lock"], "what was asked of the cache, once for all parts")
    equal(got[5], 13, "the longest that the request may get")


def probe_without_budget_nothing_is_looked_up_or_taken(seed):
    made, adder = parts(budget=0)
    calls = counted(made.cache_manager)
    found = [adder.try_add_one(pending(1, 3)) is None, list(calls)]
    found.append(made.table_manager.available_size)
    adder.token_budget = 3
    found.append(fields(adder.try_add_one(pending(1, 3))))
    return [*found, adder.token_budget, adder.try_add_one(pending(2, 3)) is None]


def judge_without_budget_nothing_is_looked_up_or_taken(seed, got):
    equal(got[:3], [True, [], 8], "no request, no look-ups, eight free rows")
    equal(got[3:5], [["Req", 0, 3, True], 0], "a prompt just as long as the budget; what is left")
    equal(got[5], True, "the one behind it waits")


def probe_a_chunk_has_no_next_token(seed):
    _, adder = parts()
    chunk = adder.try_add_one(pending(6, 10))
    chunk.complete_one()
    errors = [error_of(lambda t=t: chunk.append_host(t)) for t in (5, torch.tensor([5]))]
    return [errors, chunk.can_decode, chunk.input_ids.tolist()]


def judge_a_chunk_has_no_next_token(seed, got):
    for error in got[0]:
        refused(error, "a token for a chunk", "request 6", "no next token", kind="AssertionError")
    equal(got[1:], [False, [0, 1, 2, 3]], "can_decode; the chunk's tokens")


def probe_the_queue_keeps_a_chunked_request_at_its_head(seed):
    made, _ = parts()
    manager = made.prefill_manager
    for uid, length in ((5, 6), (2, 3), (8, 2)):
        manager.add_one_req(user(uid, list(range(length)), 2))
    found = []
    for budget in (4, 3, 9):
        batch = manager.schedule_next_batch(budget)
        for req in batch.reqs:
            req.complete_one()
        waiting = [[p.uid, p.chunked_req is not None] for p in manager.pending_list]
        rows = [[r.uid, r.device_len - 1, type(r).__name__] for r in batch.reqs]
        found.append([rows, waiting])
    return [found, manager.runnable, manager.schedule_next_batch(9) is None]


def judge_the_queue_keeps_a_chunked_request_at_its_head(seed, got):
    first = [[[5, 4, "ChunkedReq"]], [[5, True], [2, False], [8, False]]]
    second = [[[5, 6, "Req"], [2, 1, "ChunkedReq"]], [[2, True], [8, False]]]
    third = [[[2, 3, "Req"], [8, 2, "Req"]], []]
    equal(got[0], [first, second, third], "uid, tokens and kind of each part; who still waits")
    equal(got[1:], [False, True], "runnable at the end; no batch")


def probe_an_abort_returns_the_chunk_that_holds_a_row(seed):
    made, _ = parts()
    manager = made.prefill_manager
    for uid in (5, 2):
        manager.add_one_req(user(uid, list(range(6)), 2))
    chunk = manager.schedule_next_batch(4).reqs[0]
    found = [manager.abort_req(2) is None, manager.abort_req(7) is None]
    found += [manager.abort_req(5) is chunk, manager.abort_req(5) is None]
    return [*found, manager.runnable]


def judge_an_abort_returns_the_chunk_that_holds_a_row(seed, got):
    equal(got, [True] * 4 + [False], "2 holds nothing, 7 is nobody, 5 has a chunk, once; empty")


def probe_a_decode_step_is_owed_only_when_something_runs(seed):
    made, adder = parts()
    manager, other = made.prefill_manager, adder.try_add_one(pending(1, 1))
    manager.add_one_req(user(5, list(range(9)), 2))
    found = []
    for runs in (False, False, True, True, True):
        made.decode_manager.filter_reqs([other] if runs else [])
        batch = manager.schedule_next_batch(2)
        found.append(batch and [[r.uid, r.cached_len, r.device_len] for r in batch.reqs])
        for req in batch.reqs if batch else []:
            req.complete_one()
    return found


def judge_a_decode_step_is_owed_only_when_something_runs(seed, got):
    want = [[[5, 0, 2]], [[5, 2, 4]], None, [[5, 4, 6]], None]
    equal(got, want, "parts of request 5: two in a row, and then one step each for who runs")


def probe_a_chunk_that_ends_inside_a_page_reserves_only_the_pages_it_lacks(seed):
    scheduler = stub_scheduler(page_size=4, num_page_override=4, max_extend_tokens=3)
    scheduler.send(user(0, [1, 2, 3, 4], 4), user(1, [5, 6], 6))
    scheduler.run()
    return [scheduler.batches[:2], scheduler.engine.wrong]


def judge_a_chunk_that_ends_inside_a_page_reserves_only_the_pages_it_lacks(seed, got):
    want = [["prefill", [[0, 0, 3]]], ["prefill", [[0, 3, 4], [1, 0, 2]]]]
    equal(got[0], want, "two requests of two pages each in a pool of four: uid, cached, device_len")
    equal(got[1], [], "wrong slots")
