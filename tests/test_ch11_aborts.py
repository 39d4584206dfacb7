"""Chapter 11: a client that goes away takes its own request along, and nothing else."""

from __future__ import annotations

from typing import Any

from pairs import equal, public_bug, truth
from stub_engine import abort, answer, stub_scheduler, user

PAIRS = [(False, "naive"), (True, "naive"), (False, "radix"), (True, "radix")]
"""Overlap, and the type of prefix cache."""


def left_over(scheduler: Any) -> dict[str, int]:
    """What the scheduler still keeps of its requests."""
    tables, cache = scheduler.table_manager, scheduler.cache_manager
    cache.check_integrity()
    return {
        "waiting": len(scheduler.prefill_manager.pending_list),
        "running": len(scheduler.decode_manager.running_reqs),
        "in flight": len(scheduler.in_flight),
        "ended and not freed": len(scheduler.finished_reqs),
        "rows taken": scheduler.config.max_running_req - tables.available_size,
        "tokens locked": cache.prefix_cache.size_info.protected_size,
    }


NOTHING = {
    "waiting": 0,
    "running": 0,
    "in flight": 0,
    "ended and not freed": 0,
    "rows taken": 0,
    "tokens locked": 0,
}


@public_bug("B71")
def probe_generation_stops_within_two_steps_of_an_abort(seed):
    found = []
    for overlap, cache in PAIRS:
        made = stub_scheduler(overlap, cache_type=cache, num_page_override=2048)
        made.send(user(0, [5, 6, 7], 1000, ignore_eos=True))
        while len(made.replies.get(0, [])) < 2:
            made.step()
        launched = len(made.engine.snapshots)
        made.send(abort(0))
        made.run()
        later = len(made.engine.snapshots) - launched
        found.append([len(made.replies[0]), later, left_over(made)])
    return found


def judge_generation_stops_within_two_steps_of_an_abort(seed, got):
    for (overlap, cache), (replies, later, left) in zip(PAIRS, got, strict=True):
        where = f"with overlap {overlap} and the {cache} cache"
        equal(replies, 2, f"replies to a client that left after two {where}")
        equal(later, 0, f"batches launched after the abort {where}")
        equal(left, NOTHING, f"what is left {where}")


@public_bug("B72")
def probe_an_abort_in_a_long_prefill_ends_that_request_alone(seed):
    found = []
    for overlap, cache in PAIRS:
        made = stub_scheduler(overlap, cache_type=cache, num_page_override=256, max_extend_tokens=8)
        made.send(user(0, [1, 2, 3], 30, ignore_eos=True))
        made.step()
        made.send(user(1, list(range(60)), 5))
        for _ in range(5):
            made.step()
        [pending] = made.prefill_manager.pending_list
        done = pending.chunked_req.cached_len
        made.send(abort(1), user(2, [4, 5], 6, ignore_eos=True))
        made.run()
        found.append([done, made.tokens(0), made.replies.get(1), made.tokens(2), left_over(made)])
    return found


def judge_an_abort_in_a_long_prefill_ends_that_request_alone(seed, got):
    for (overlap, cache), (done, streaming, gone, next_one, left) in zip(PAIRS, got, strict=True):
        where = f"with overlap {overlap} and the {cache} cache"
        truth(0 < done < 60, f"the prompt was computed in part {where}", done)
        equal(streaming, answer([1, 2, 3], 30), f"the stream of another client {where}")
        equal(gone, None, f"replies to the client that left {where}")
        equal(next_one, answer([4, 5], 6), f"the request behind it {where}")
        equal(left, NOTHING, f"what is left {where}")


@public_bug("B73")
def probe_a_thousand_aborted_requests_leave_nothing(seed):
    found = []
    for overlap, cache in PAIRS:
        made = stub_scheduler(overlap, cache_type=cache)
        for uid in range(250):
            made.send(user(uid, [uid % 90, 3, 4], 20, ignore_eos=True))
            while len(made.replies.get(uid, [])) < 2:
                made.step()
            made.send(abort(uid), abort(uid))
        made.run()
        found.append([{len(said) for said in made.replies.values()} == {2}, left_over(made)])
    return found


def judge_a_thousand_aborted_requests_leave_nothing(seed, got):
    equal(got, [[True, NOTHING]] * 4, "two replies each; what is left")
