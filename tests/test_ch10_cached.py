"""Chapter 10: what the cache already has costs no budget, and chunks hold it only once."""

from __future__ import annotations

from typing import Any

from pairs import equal, public_bug
from stub_engine import abort, answer, said, stub_scheduler, user

TEN = list(range(20, 30))
TWELVE = list(range(40, 52))


def scheduler_with(cached: list[int], **settings: Any) -> Any:
    """A scheduler whose radix cache holds these tokens, whole pages of them, and nothing else."""
    made = stub_scheduler(cache_type="radix", **settings)
    made.send(user(99, cached, 1))
    made.run()
    made.batches.clear()
    made.replies.clear()
    return made


def heard(scheduler: Any) -> list[list[Any]]:
    """Run until idle; each uid with its replies."""
    return [[uid, replies] for uid, replies in sorted(scheduler.run().items())]


@public_bug("B57")
def probe_only_what_is_not_cached_counts_against_the_budget(seed):
    found = []
    for size, second in ((1, 6), (4, 6), (1, 2)):
        scheduler = scheduler_with(TEN[:8], max_extend_tokens=4, page_size=size)
        scheduler.send(user(0, TEN, 2), user(1, TWELVE[:second], 1))
        found.append([heard(scheduler), scheduler.batches, scheduler.engine.wrong])
    return found


def judge_only_what_is_not_cached_counts_against_the_budget(seed, got):
    later = [["decode", [[0, 10, 11]]], ["prefill", [[1, 2, 6]]]]
    cut = [["prefill", [[0, 8, 10], [1, 0, 2]]], *later]
    whole = [cut[0], later[0]]
    for second, batches, found in zip((6, 6, 2), (cut, cut, whole), got, strict=True):
        replies = [[0, said(TEN, 2)], [1, said(TWELVE[:second], 1)]]
        equal(found, [replies, batches, []], f"replies, batches, wrong slots; second of {second}")


@public_bug("B59")
def probe_the_last_token_of_a_cached_prompt_is_computed_again(seed):
    found = []
    for size, budget in ((4, 100), (4, 2), (1, 100), (8, 3)):
        scheduler = scheduler_with(TEN[:8], max_extend_tokens=budget, page_size=size)
        scheduler.engine.expect(0, TEN[:8] + answer(TEN[:8], 3))
        scheduler.send(user(0, TEN[:8], 3))
        replies = heard(scheduler)
        prefills = [rows for phase, rows in scheduler.batches if phase == "prefill"]
        found.append([replies, prefills, scheduler.engine.wrong])
    return found


def judge_the_last_token_of_a_cached_prompt_is_computed_again(seed, got):
    parts = (((4, 8),), ((4, 6), (6, 8)), ((7, 8),), ((0, 3), (3, 6), (6, 8)))
    for spans, found in zip(parts, got, strict=True):
        want = [[[0, said(TEN[:8], 3)]], [[[0, low, high]] for low, high in spans], []]
        equal(found, want, "replies, prefills and wrong slots of a prompt that came before")


WAYS = ((1, 1), (2, 1), (4, 1), (1, 5), (4, 5))
"""Page size and max_tokens."""


@public_bug("B61")
def probe_chunks_hold_their_prefix_once(seed):
    found = []
    for size, output in WAYS:
        scheduler = scheduler_with(TWELVE[:4], max_extend_tokens=4, page_size=size)
        scheduler.send(user(0, TWELVE, output))
        held = []
        for _ in range(2):
            scheduler.step()
            held.append(scheduler.cache_manager.prefix_cache.size_info.protected_size)
        replies = heard(scheduler)
        sizes = scheduler.cache_manager.prefix_cache.size_info
        rows = scheduler.table_manager.available_size
        found.append([held, replies, scheduler.batches[:2], [*sizes], rows])
    return found


def judge_chunks_hold_their_prefix_once(seed, got):
    for (size, output), (held, replies, batches, sizes, rows) in zip(WAYS, got, strict=True):
        what = f"page size {size}, {output} tokens"
        equal(batches, [["prefill", [[0, 4, 8]]], ["prefill", [[0, 8, 12]]]], f"batches: {what}")
        equal(held, [4, 12 if output > 1 else 0], f"locked tokens after each chunk: {what}")
        equal(replies, [[0, said(TWELVE, output)]], f"replies: {what}")
        left = (12 + output - 1) // size * size
        equal([sizes, rows], [[left, 0], 8], f"evictable, protected, free rows when idle: {what}")


def probe_an_aborted_chunk_lets_its_prefix_go(seed):
    found = []
    for size in (1, 4):
        scheduler = scheduler_with(TWELVE[:4], max_extend_tokens=3, page_size=size)
        scheduler.send(user(0, TWELVE, 5), user(1, TWELVE, 2))
        scheduler.step()
        scheduler.send(abort(0))
        replies = heard(scheduler)
        sizes = scheduler.cache_manager.prefix_cache.size_info
        rows = scheduler.table_manager.available_size
        found.append([replies, scheduler.engine.wrong, sizes.protected_size, rows])
    return found


def judge_an_aborted_chunk_lets_its_prefix_go(seed, got):
    want = [[[1, said(TWELVE, 2)]], [], 0, 8]
    equal(got, [want, want], "replies, wrong slots, locked tokens, free rows at page size 1 and 4")


def probe_a_prefix_that_is_in_use_is_not_evicted_between_chunks(seed):
    scheduler = scheduler_with(TWELVE[:8], max_extend_tokens=2, num_page_override=20)
    scheduler.send(user(0, [1], 5))
    scheduler.step()
    scheduler.send(user(1, TWELVE, 3), user(2, TEN, 3))
    for uid, ids, count in ((1, TWELVE, 3), (2, TEN, 3)):
        scheduler.engine.expect(uid, ids + answer(ids, count))
    return [heard(scheduler), scheduler.engine.wrong]


def judge_a_prefix_that_is_in_use_is_not_evicted_between_chunks(seed, got):
    want = [[0, said([1], 5)], [1, said(TWELVE, 3)], [2, said(TEN, 3)]]
    equal(got, [want, []], "replies and wrong slots in a pool of 20 tokens")
