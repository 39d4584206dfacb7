"""Chapter 11: what ends while a batch is on the device keeps its row and pages until it is read."""

from __future__ import annotations

from typing import Any

from pairs import equal, public_bug, truth
from stub_engine import Done, abort, answer, stub_scheduler, user

PROMPT, LONGER = [1, 2, 3], list(range(10, 30))
TOKENS = answer(PROMPT, 9)
CACHES = ("naive", "radix")


def left_behind(scheduler: Any) -> list[int]:
    """What an idle scheduler still holds: rows, pages, requests of each kind."""
    free = len(scheduler.cache_manager.free_slots) * scheduler.cache_manager.page_size
    cached = scheduler.cache_manager.prefix_cache.size_info.evictable_size
    total = scheduler.engine.num_pages * scheduler.cache_manager.page_size
    return [
        scheduler.config.max_running_req - scheduler.table_manager.available_size,
        total - free - cached,
        len(scheduler.finished_reqs),
        len(scheduler.in_flight),
        len(scheduler.decode_manager.running_reqs),
        len(scheduler.prefill_manager.pending_list),
    ]


def stepped(scheduler: Any) -> bool:
    """One step; whether there was anything left to do. Each row and page must have one owner."""
    try:
        scheduler.step()
    except Done:
        return False
    scheduler.check()
    return True


def aborted_at(step: int, overlap: bool, times: int = 1, **settings: Any) -> list[Any]:
    """Abort a request before this step; then two more come. What each got, and what is left."""
    scheduler = stub_scheduler(overlap=overlap, **settings)
    scheduler.send(user(0, PROMPT, 5), user(7, LONGER, 12))
    scheduler.engine.expect(7, LONGER)
    for _ in range(step):
        stepped(scheduler)
    before = [list(said) for said in scheduler.replies.get(0, [])]
    scheduler.send(*[abort(0)] * times, user(1, LONGER[::-1], 4), user(2, [5], 4))
    rows = []
    while stepped(scheduler):
        running = scheduler.decode_manager.running_reqs
        rows.append([r.table_idx for r in running if r.uid in (1, 2)])
    both = next((pair for pair in rows if len(pair) == 2), [0, 0])
    return [
        before,
        scheduler.replies.get(0, []),
        [scheduler.tokens(uid) for uid in (1, 2, 7)],
        both[0] != both[1],
        scheduler.engine.wrong,
        left_behind(scheduler),
    ]


@public_bug("B65")
def probe_an_abort_in_the_loop_that_reads_the_last_token_releases_once(seed):
    found = []
    for cache in CACHES:
        for step in (3, 2):  # the end id's result is read in the third loop, and in the fourth
            end = (TOKENS[step - 1],)
            found.append(aborted_at(step, True, eos=end, cache_type=cache))
        found.append(aborted_at(5, True, cache_type=cache))  # likewise for the last of 5 tokens
    return found


def _judge_aborted(case: list[Any], eos: tuple[int, ...], what: str) -> None:
    before, after, others, rows_differ, wrong, left = case
    equal(after, before, f"{what}: replies after the abort")
    want = [answer(*x, eos=eos) for x in ((LONGER[::-1], 4), ([5], 4), (LONGER, 12))]
    equal(others, want, f"{what}: tokens of the others")
    truth(rows_differ, f"{what}: the next two requests have different rows")
    equal(wrong, [], f"{what}: reads of wrong K and V")
    equal(left, [0] * 6, f"{what}: rows, slots and requests that are left")


def judge_an_abort_in_the_loop_that_reads_the_last_token_releases_once(seed, got):
    for i, case in enumerate(got):
        step = (3, 2, 5)[i % 3]
        eos = ((TOKENS[2],), (TOKENS[1],), ())[i % 3]
        _judge_aborted(case, eos, f"{CACHES[i // 3]} cache, abort before loop {step + 1}")


@public_bug("B65")
def probe_an_abort_at_any_moment_stops_the_request_and_no_other(seed):
    return [
        [
            [aborted_at(step, overlap, times, cache_type=cache, page_size=size,
                        max_extend_tokens=budget)  # fmt: skip
             for step in range(12)]
            for overlap in (True, False)
            for times in (1, 2)
        ]
        for cache, size, budget in (("naive", 1, 100), ("radix", 1, 2), ("radix", 4, 6))
    ]  # fmt: skip


def judge_an_abort_at_any_moment_stops_the_request_and_no_other(seed, got):
    for way, cases in zip(("naive", "radix, budget 2", "radix, pages of 4"), got, strict=True):
        for case in cases:
            for step, result in enumerate(case):
                _judge_aborted(result, (), f"{way}: abort before step {step}")
            sent = [len(result[0]) for result in case]
            equal(sorted(sent), sent, f"{way}: the later the abort, the more tokens were sent")
            truth(sent[0] == 0 and sent[-1] == 5, f"{way}: aborts from the start to the end", sent)


@public_bug("B67")
def probe_the_tensors_of_a_launched_batch_stay_as_they_are(seed):
    import torch

    scheduler = stub_scheduler(overlap=True, max_extend_tokens=7, cache_type="radix")
    for uid in range(12):
        scheduler.send(user(uid, [uid] * (1 + uid), 1 + uid % 5))
    scheduler.run()
    snapshots = scheduler.engine.snapshots
    same = [all(map(torch.equal, now, then)) for now, then in snapshots]
    batches = [[x.data_ptr() for x in now] for now, _ in snapshots]
    shared = [set(a) & set(b) for a, b in zip(batches, batches[1:], strict=False)]
    return [same, len([x for x in shared if x])]


def judge_the_tensors_of_a_launched_batch_stay_as_they_are(seed, got):
    same, shared = got
    truth(len(same) > 20, "many batches", len(same))
    equal(same, [True] * len(same), "whether positions and slots are as they were at the launch")
    equal(shared, 0, "batches that share memory with the next one")


@public_bug("B69")
def probe_an_abort_of_a_waiting_request_leaves_the_running_one_alone(seed):
    found = []
    for overlap in (True, False):
        scheduler = stub_scheduler(overlap=overlap, max_running_req=1)
        scheduler.send(user(0, PROMPT, 6), user(1, LONGER, 6))
        scheduler.step()
        scheduler.send(abort(1), abort(1), abort(99))
        scheduler.step()
        scheduler.send(abort(1))
        found.append([scheduler.run()[0], 1 in scheduler.replies, left_behind(scheduler)])
    return found


def judge_an_abort_of_a_waiting_request_leaves_the_running_one_alone(seed, got):
    want = [[token, i == 5] for i, token in enumerate(answer(PROMPT, 6))]
    equal(got, [[want, False, [0] * 6]] * 2, "replies, whether uid 1 got any, what is left")


def probe_a_row_is_given_away_only_when_no_batch_holds_it(seed):
    scheduler = stub_scheduler(overlap=True, max_running_req=1, eos=(TOKENS[2],))
    scheduler.engine.expect(1, LONGER + answer(LONGER, 4, eos=(TOKENS[2],)))
    scheduler.send(user(0, PROMPT, 9), user(1, LONGER, 4))
    seen = []
    while stepped(scheduler):
        ended = any(finished for _, finished in scheduler.replies.get(0, []))
        rows = scheduler.table_manager.available_size
        held = any(req.uid == 0 for batch in scheduler.in_flight for req in batch.reqs)
        seen.append([ended, held, rows])
    return [[x for x in seen if x[0]][:2], scheduler.tokens(1), scheduler.engine.wrong]


def judge_a_row_is_given_away_only_when_no_batch_holds_it(seed, got):
    equal(got[0], [[True, True, 0], [True, False, 1]],
          "after the end id and a step later: ended, still in flight, free rows")  # fmt: skip
    equal(got[1], answer(LONGER, 4, eos=(TOKENS[2],)), "tokens of the next request in that row")
    equal(got[2], [], "wrong K and V that it saw")


def probe_pages_are_given_away_only_when_no_batch_holds_them(seed):
    found = []
    for overlap in (True, False):
        scheduler = stub_scheduler(overlap=overlap, eos=(TOKENS[2],), num_page_override=16)
        scheduler.send(user(0, PROMPT, 9))
        free = []
        while stepped(scheduler):
            free.append(len(scheduler.cache_manager.free_slots))
        found.append(free)
    return found


def judge_pages_are_given_away_only_when_no_batch_holds_them(seed, got):
    equal(got[0], [13, 12, 11, 10, 16], "free pages after each step, with overlap")
    equal(got[1], [13, 12, 16], "free pages after each step, without")


def probe_an_abort_in_mid_prefill_frees_each_page_once(seed):
    found = []
    for cache in CACHES:
        for overlap in (True, False):
            for step in range(6):
                scheduler = stub_scheduler(
                    overlap=overlap, max_extend_tokens=4, num_page_override=24, cache_type=cache
                )
                scheduler.send(user(0, LONGER, 2))
                for _ in range(step):
                    stepped(scheduler)
                scheduler.send(abort(0), abort(0), user(1, LONGER, 3))
                while stepped(scheduler):
                    pass
                found.append([scheduler.tokens(0), scheduler.tokens(1), left_behind(scheduler)])
    return found


def judge_an_abort_in_mid_prefill_frees_each_page_once(seed, got):
    for case, (aborted, other, left) in enumerate(got):
        what = f"abort before step {case % 6}"
        equal(len(aborted), 0 if case // 6 % 2 == 0 or case % 6 < 5 else 1, f"{what}: tokens sent")
        equal(other, answer(LONGER, 3), f"{what}: tokens of the next request")
        equal(left, [0] * 6, f"{what}: rows, slots and requests that are left")


def probe_an_aborted_request_takes_no_further_step(seed):
    found = []
    for overlap in (True, False):
        scheduler = stub_scheduler(overlap=overlap, num_page_override=1100)
        scheduler.send(user(0, PROMPT, 1000, ignore_eos=True))
        while len(scheduler.replies.get(0, [])) < 2:
            scheduler.step()
        scheduler.send(abort(0))
        steps = 0
        while stepped(scheduler):
            steps += 1
        found.append([steps, len(scheduler.replies[0]), left_behind(scheduler)])
    return found


def judge_an_aborted_request_takes_no_further_step(seed, got):
    equal(got, [[1, 2, [0] * 6]] * 2, "steps after the abort, tokens sent, what is left")


def probe_a_thousand_aborts_leave_nothing_behind(seed):
    scheduler = stub_scheduler(overlap=True, cache_type="radix")
    for uid in range(1000):
        scheduler.send(user(uid, [uid % 97, 3, 5], 8))
        while len(scheduler.replies.get(uid, [])) < 2:
            scheduler.step()
        scheduler.send(abort(uid))
        scheduler.step()
    scheduler.run()
    sent = {len(said) for said in scheduler.replies.values()}
    return [sorted(sent), len(scheduler.replies), left_behind(scheduler)]


def judge_a_thousand_aborts_leave_nothing_behind(seed, got):
    equal(got, [[2], 1000, [0] * 6], "tokens of each request, requests, what is left")


ARRIVALS = ([7, 6, 5, 4, 3, 2, 1, 0], [3, 0, 7, 1, 6, 2, 5, 4], [4, 5, 2, 6, 1, 7, 0, 3])


def probe_what_ends_together_is_freed_by_uid(seed):
    found = []
    for uids in ARRIVALS:
        scheduler = stub_scheduler(overlap=True, num_page_override=16)
        scheduler.send(*(user(uid, [uid], 1) for uid in uids))
        scheduler.run()
        found.append([scheduler.cache_manager.free_slots.tolist(),
                      scheduler.table_manager._free_rows])  # fmt: skip
    return found


def judge_what_ends_together_is_freed_by_uid(seed, got):
    for uids, (slots, rows) in zip(ARRIVALS, got, strict=True):
        order = [uids.index(uid) for uid in range(8)]
        equal(slots, [*range(8, 16), *order], f"free slots, when the requests came in as {uids}")
        equal(rows, [7 - i for i in order], "free rows")
