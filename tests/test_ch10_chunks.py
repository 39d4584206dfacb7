"""Chapter 10: a long prompt is computed in parts, between which the others go on."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairs import equal, public_bug, refused, truth
from stub_engine import abort, answer, said, stub_scheduler, user

TEN = list(range(20, 30))
WAYS = tuple((cache, size) for cache in ("naive", "radix") for size in (1, 4, 16))
BUDGETS = (1, 3, 5, 2, 7, 20)


def prompt(length: int, first: int = 0) -> list[int]:
    return [(first + 7 * i) % 97 for i in range(length)]


def heard(scheduler: Any) -> list[list[Any]]:
    """Run until idle; each uid with its replies."""
    return [[uid, replies] for uid, replies in sorted(scheduler.run().items())]


def at_rest(scheduler: Any) -> list[int]:
    """Free rows, available and protected tokens."""
    protected = scheduler.cache_manager.prefix_cache.size_info.protected_size
    available = scheduler.cache_manager.available_size
    return [scheduler.table_manager.available_size, available, protected]


@public_bug("B54")
def probe_a_prompt_is_cut_where_the_budget_ends(seed):
    found = []
    for cache, size in WAYS:
        scheduler = stub_scheduler(cache_type=cache, page_size=size, max_extend_tokens=4)
        scheduler.engine.expect(0, TEN + answer(TEN, 2))
        scheduler.send(user(0, TEN, 2))
        replies = []
        for _ in range(4):
            scheduler.step()
            replies.append(len(scheduler.tokens(0)))
        found.append([scheduler.batches, replies, heard(scheduler), scheduler.engine.wrong])
    return found


def judge_a_prompt_is_cut_where_the_budget_ends(seed, got):
    parts = [["prefill", [[0, low, high]]] for low, high in ((0, 4), (4, 8), (8, 10))]
    for way, (batches, replies, all_replies, wrong) in zip(WAYS, got, strict=True):
        equal(batches, [*parts, ["decode", [[0, 10, 11]]]], f"uid, cached and device_len, {way}")
        equal(replies, [0, 0, 1, 2], f"replies so far after each step, {way}")
        equal([all_replies, wrong], [[[0, said(TEN, 2)]], []], f"replies, wrong slots, {way}")


FULL = ((1, 32, 31), (4, 8, 31), (16, 2, 30), (1, 64, 63))
"""Page size, pages, and a prompt that leaves room for one token or two in the pool."""


@public_bug("B55")
def probe_what_a_chunk_samples_goes_nowhere(seed):
    found = []
    for size, pages, length in FULL:
        made = {"page_size": size, "num_page_override": pages, "max_running_req": 1}
        scheduler, rows = stub_scheduler(**made, max_extend_tokens=4), []
        scheduler.send(user(0, prompt(length), 9))
        while not scheduler.replies:
            rows.append(scheduler.token_pool.pool[0, :length].tolist())
            scheduler.step()
            rows.append(scheduler.token_pool.pool[0, :length].tolist())
        whole = stub_scheduler(**made)
        whole.send(user(0, prompt(length), 9))
        found.append([rows[1:], heard(scheduler), heard(whole), len(scheduler.batches)])
    return found


def judge_what_a_chunk_samples_goes_nowhere(seed, got):
    for (size, pages, length), (rows, replies, whole, count) in zip(FULL, got, strict=True):
        what = f"a prompt of {length}, {pages} pages of {size}"
        equal(rows, [prompt(length)] * len(rows), f"the row of the token pool, each step: {what}")
        left = size * pages - length
        equal(replies, [[0, said(prompt(length), left)]], f"replies: {what}")
        equal(whole, replies, f"replies when the prompt is computed at once: {what}")
        equal(count, -(-length // 4) + left - 1, f"batches: {what}")


SHARED = (
    (10, (3, 4, 5, 2), [[3, 4, 3], [2, 2]]),
    (4, (2, 2, 3, 6), [[2, 2], [3, 1], [4], [1]]),
    (1, (3, 1), [[1], [1], [1], [1]]),
    (5, (5, 5), [[5], [5]]),
    (100, (9, 9, 9), [[9, 9, 9]]),
)
"""Budget, prompts, and the tokens that each batch computes of each request."""


def probe_a_batch_never_computes_more_than_its_budget(seed):
    found = []
    for budget, lengths, _ in SHARED:
        scheduler = stub_scheduler(max_extend_tokens=budget, page_size=16)
        for uid, length in enumerate(lengths):
            scheduler.send(user(uid, prompt(length, uid), 1))
        replies = heard(scheduler)
        batches = [[end - start for _, start, end in rows] for _, rows in scheduler.batches]
        found.append([batches, replies])
    return found


def judge_a_batch_never_computes_more_than_its_budget(seed, got):
    for (budget, lengths, want), (batches, replies) in zip(SHARED, got, strict=True):
        equal(batches, want, f"tokens of each batch; budget {budget}, prompts of {lengths}")
        want_replies = [[uid, said(prompt(n, uid), 1)] for uid, n in enumerate(lengths)]
        equal(replies, want_replies, f"replies; budget {budget}, prompts of {lengths}")


@public_bug("B60")
def probe_between_two_chunks_the_running_requests_get_one_step(seed):
    scheduler = stub_scheduler(max_running_req=2, max_extend_tokens=4)
    scheduler.send(user(5, [1], 6))
    scheduler.step()
    scheduler.send(user(2, TEN, 3), user(9, [3], 1))
    replies = heard(scheduler)
    return [scheduler.batches, replies, scheduler.engine.wrong]


def judge_between_two_chunks_the_running_requests_get_one_step(seed, got):
    want = [["prefill", [[5, 0, 1]]], ["prefill", [[2, 0, 4]]], ["decode", [[5, 1, 2]]],
            ["prefill", [[2, 4, 8]]], ["decode", [[5, 2, 3]]], ["prefill", [[2, 8, 10]]],
            ["decode", [[2, 10, 11], [5, 3, 4]]], ["decode", [[2, 11, 12], [5, 4, 5]]],
            ["prefill", [[9, 0, 1]]], ["decode", [[5, 5, 6]]]]  # fmt: skip
    equal(got[0], want, "batches on two rows: uid, cached_len and device_len")
    equal(got[1], [[2, said(TEN, 3)], [5, said([1], 6)], [9, said([3], 1)]], "replies")
    equal(got[2], [], "wrong slots")


def probe_whole_prompts_are_counted_until_the_running_request_gets_its_step(seed):
    scheduler = stub_scheduler(num_page_override=256, max_extend_tokens=64)
    scheduler.send(user(0, [1], 30))
    for uid in range(1, 31):
        if uid not in (4, 5):  # two steps without a new prompt
            scheduler.send(user(uid, [uid, 4], 1))
        scheduler.step()
    return [phase for phase, _ in scheduler.batches]


def judge_whole_prompts_are_counted_until_the_running_request_gets_its_step(seed, got):
    eight = [*["prefill"] * 8, "decode"]
    want = [*["prefill"] * 3, *["decode"] * 2, *eight, *eight]
    equal(got[: len(want)], want, "batches: eight of prompts, counted anew after each decode step")


def probe_an_end_id_ends_a_request_but_not_when_a_chunk_samples_it(seed):
    ends = (answer(TEN, 3)[2], answer(TEN[:4], 1)[0])
    scheduler = stub_scheduler(max_extend_tokens=4, eos=ends)
    scheduler.send(user(0, TEN, 6), user(1, TEN, 6, ignore_eos=True))
    replies = heard(scheduler)
    return [replies, len(scheduler.batches), at_rest(scheduler)]


def judge_an_end_id_ends_a_request_but_not_when_a_chunk_samples_it(seed, got):
    end = answer(TEN, 3)[2]
    truth(end not in answer(TEN, 2), "the end id doesn't come earlier", answer(TEN, 6))
    want = [[0, said(TEN, 6, eos=(end,))], [1, said(TEN, 6)]]
    equal(got[0], want, "replies up to the end id, and those of a request that ignores it")
    equal(got[2], [8, 64, 0], "free rows, available and protected tokens")


def probe_prompts_longer_than_the_pool_are_refused_whatever_the_budget(seed):
    found = []
    for size, pages in ((1, 16), (4, 4), (16, 1)):
        made = {"page_size": size, "num_page_override": pages, "max_seq_len_override": 64}
        scheduler = stub_scheduler(**made, max_extend_tokens=3)
        scheduler.send(*(user(uid, prompt(n), 9) for uid, n in enumerate((20, 16, 15, 3))))
        found.append([heard(scheduler), scheduler.engine.wrong])
    return found


def judge_prompts_longer_than_the_pool_are_refused_whatever_the_budget(seed, got):
    for size, (replies, wrong) in zip((1, 4, 16), got, strict=True):
        for (_, [error]), length in zip(replies[:2], (20, 16), strict=True):
            refusal = {"kind": "", "message": error[2]}
            refused(refusal, f"a prompt of {length}, page size {size}", f"{length} tokens")
        want = [[2, said(prompt(15), 1)], [3, said(prompt(3), 9)]]
        equal([replies[2:], wrong], [want, []], f"replies to the others at page size {size}")


def probe_an_abort_between_chunks_gives_everything_back(seed):
    found = []
    for cache, size in WAYS:
        for chunks in (0, 1, 2):
            scheduler = stub_scheduler(cache_type=cache, page_size=size, max_extend_tokens=4)
            full = at_rest(scheduler)
            scheduler.send(user(0, TEN, 3), user(1, TEN[:6], 3))
            for _ in range(chunks):
                scheduler.step()
            scheduler.send(abort(0), abort(0))
            replies = heard(scheduler)
            first = scheduler.batches[chunks][1][0]
            found.append([replies, scheduler.engine.wrong, at_rest(scheduler) == full, first[:1]])
    return found


def judge_an_abort_between_chunks_gives_everything_back(seed, got):
    ways = [(*way, chunks) for way in WAYS for chunks in (0, 1, 2)]
    for way, found in zip(ways, got, strict=True):
        want = [[[1, said(TEN[:6], 3)]], [], True, [1]]
        equal(found, want, f"replies, wrong slots, all is free, who runs next; {way}")


def probe_chunks_starve_nobody_and_run_out_of_nothing(seed):
    found = []
    for (cache, size), budget in zip(WAYS, BUDGETS, strict=True):
        rng = np.random.default_rng(seed)
        made = {"page_size": size, "num_page_override": -(-48 // size), "max_running_req": 4}
        scheduler = stub_scheduler(cache_type=cache, max_extend_tokens=budget, **made)
        lengths = rng.integers(1, 24, (30, 2)).tolist()
        for uid, (tokens, output) in enumerate(lengths):
            ids = prompt(tokens, uid % 2)
            scheduler.engine.expect(uid, ids + answer(ids, output))
            scheduler.send(user(uid, ids, output))
            for _ in range(int(rng.integers(0, 9))):
                if scheduler.inbox or scheduler._runnable:
                    scheduler.step()
        replies = heard(scheduler)
        most = max(sum(end - low for _, low, end in rows) for phase, rows in scheduler.batches
                   if phase == "prefill")  # fmt: skip
        found.append([lengths, replies, scheduler.engine.wrong, most, at_rest(scheduler)])
    return found


def judge_chunks_starve_nobody_and_run_out_of_nothing(seed, got):
    for way, budget, found in zip(WAYS, BUDGETS, got, strict=True):
        lengths, replies, wrong, most, free = found
        want = [[u, said(prompt(n, u % 2), m)] for u, (n, m) in enumerate(lengths)]
        equal([replies, wrong], [want, []], f"replies, wrong slots; budget {budget}, {way}")
        truth(most <= budget, f"tokens of a batch, budget {budget}", most)
        equal(free, [4, 48, 0], f"free rows, available and protected tokens; {way}")
