"""Each of the four faults, on the input that shows it, beside what the scheduler does."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.stub_engine import Done, abort, answer, stub_scheduler, user
from faults import upstream_overlap as upstream
from minisgl.scheduler import Scheduler

PROMPT = [1, 2, 3]
TOKENS = answer(PROMPT, 9)


def replies(base: type[Scheduler], max_tokens: int, overlap: bool = True, **settings: Any) -> Any:
    """What a client of PROMPT is sent."""
    scheduler = stub_scheduler(overlap=overlap, base=base, **settings)
    scheduler.send(user(0, PROMPT, max_tokens))
    return scheduler.run()[0]


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_1_the_finished_flag_comes_one_token_early_and_then_again(count: int) -> None:
    faulty = replies(upstream.JudgesTheLengthInFlight, count)
    assert faulty == [[t, i >= count - 2] for i, t in enumerate(TOKENS[:count])]
    right = [[t, i == count - 1] for i, t in enumerate(TOKENS[:count])]
    assert replies(Scheduler, count) == replies(Scheduler, count, overlap=False) == right


def test_1_without_overlap_the_length_is_judged_rightly() -> None:
    faulty = replies(upstream.JudgesTheLengthInFlight, 3, overlap=False)
    assert faulty == replies(Scheduler, 3)


@pytest.mark.parametrize("end", [0, 1, 2, 7])
def test_2_a_stale_message_follows_the_end_id(end: int) -> None:
    right = [[t, i == end] for i, t in enumerate(TOKENS[: end + 1])]
    faulty = replies(upstream.ForgetsWhoHasEnded, 9, eos=(TOKENS[end],))
    assert faulty == [*right, [TOKENS[end + 1], False]]
    assert replies(Scheduler, 9, eos=(TOKENS[end],)) == right


def reused_row(base: type[Scheduler]) -> Any:
    """A scheduler with one row, which a request leaves at an end id and a longer one takes."""
    scheduler = stub_scheduler(overlap=True, base=base, max_running_req=1, eos=(TOKENS[2],))
    longer = list(range(10, 30))
    scheduler.engine.expect(1, longer)
    scheduler.send(user(0, PROMPT, 9), user(1, longer, 4))
    scheduler.run()
    return scheduler


def test_3_a_row_that_is_still_written_to_is_given_to_another_request() -> None:
    """The batch in flight writes its token behind the end id: into the new request's prompt."""
    want = answer(list(range(10, 30)), 4, eos=(TOKENS[2],))
    faulty, right = reused_row(upstream.GivesRowsAwayInFlight), reused_row(Scheduler)
    assert faulty.tokens(1) != want
    assert faulty.engine.wrong[0] == "request 1 sees a stranger's K and V at 6"
    assert (right.tokens(1), right.engine.wrong) == (want, [])
    assert faulty.tokens(0) == right.tokens(0) == TOKENS[:3]


def aborted_in_mid_prefill(base: type[Scheduler], *others: Any, **settings: Any) -> Any:
    """A scheduler whose request of three chunks is aborted while the second is in flight.

    others: requests that come in together with the abort.
    """
    scheduler = stub_scheduler(
        overlap=True, base=base, max_extend_tokens=4, num_page_override=16, **settings
    )
    scheduler.send(user(0, list(range(12)), 2))
    scheduler.step()
    scheduler.step()
    scheduler.send(abort(0), *others)
    scheduler.step()
    return scheduler


@pytest.mark.parametrize("cache_type", ["naive", "radix"])
def test_4_an_abort_in_mid_prefill_frees_pages_twice(cache_type: str) -> None:
    faulty = aborted_in_mid_prefill(upstream.FreesAtAbortToo, cache_type=cache_type)
    with pytest.raises(RuntimeError, match="the page at slot 0 belongs to the free list"):
        faulty.cache_manager.check_integrity()
    handed_out = len(faulty.cache_manager.free_slots) + len(
        faulty.cache_manager.prefix_cache.all_indices()
    )
    assert handed_out == 16 + 8  # the pages of two chunks count twice
    right = aborted_in_mid_prefill(Scheduler, cache_type=cache_type)
    right.cache_manager.check_integrity()
    with pytest.raises(Done):
        right.step()


def test_4_the_pages_that_are_free_twice_go_to_two_requests() -> None:
    prompts = {uid: [uid] * 6 for uid in (1, 2, 3)}
    others = [user(uid, prompt, 2) for uid, prompt in prompts.items()]
    right = aborted_in_mid_prefill(Scheduler, *others)
    right.run()
    assert all(right.tokens(uid) == answer(prompt, 2) for uid, prompt in prompts.items())
    faulty = aborted_in_mid_prefill(upstream.FreesAtAbortToo, *others)
    for uid, prompt in prompts.items():
        faulty.engine.expect(uid, prompt)
    with pytest.raises(RuntimeError, match="more than once"):  # noticed when idle: too late
        faulty.run()
    assert "request 2 sees a stranger's K and V at 2" in faulty.engine.wrong
