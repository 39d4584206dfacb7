"""Chapter 07: what is admitted is sure to find its pages; what can never run is refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairs import equal, public_bug, refused, truth
from stub_engine import answer, said, stub_scheduler, user


def heard(scheduler: Any) -> list[list[Any]]:
    """Run until idle; each uid with its replies."""
    return [[uid, replies] for uid, replies in sorted(scheduler.run().items())]


def prompt(length: int) -> list[int]:
    return [(7 * i + length) % 97 for i in range(length)]


TOGETHER = (
    (1, 16, ((6, 2), (6, 2)), True),
    (1, 15, ((6, 2), (6, 2)), False),
    (4, 4, ((3, 6), (2, 2)), True),
    (4, 4, ((3, 6), (2, 3)), False),  # 14 tokens of 16, but 5 pages of 4
    (4, 4, ((7, 1), (7, 2)), False),
    (4, 5, ((7, 1), (7, 2)), True),
    (16, 2, ((1, 1), (1, 15)), True),
    (16, 2, ((1, 1), (1, 16)), False),
    (16, 3, ((15, 2), (9, 7)), True),
    (16, 2, ((15, 2), (9, 7)), False),
)
"""Page size, pages, (prompt, output) lengths of two requests, and whether both fit at once."""


def probe_two_requests_start_together_just_when_the_pages_of_both_are_enough(seed):
    found = []
    for size, pages, lengths, _ in TOGETHER:
        scheduler = stub_scheduler(page_size=size, num_page_override=pages)
        for uid, (tokens, output) in enumerate(lengths):
            scheduler.send(user(uid, prompt(tokens), output))
        replies = heard(scheduler)
        found.append([len(scheduler.batches[0][1]), replies, scheduler.engine.wrong])
    return found


def judge_two_requests_start_together_just_when_the_pages_of_both_are_enough(seed, got):
    for case, (started, replies, wrong) in zip(TOGETHER, got, strict=True):
        size, pages, lengths, together = case
        what = f"{pages} pages of {size}, requests of {lengths}"
        equal(started, 1 + together, f"requests in the first batch: {what}")
        want = [[uid, said(prompt(n), m)] for uid, (n, m) in enumerate(lengths)]
        equal([replies, wrong], [want, []], f"replies, wrong slots: {what}")


def probe_what_running_requests_were_promised_is_not_given_away(seed):
    scheduler = stub_scheduler(page_size=4, num_page_override=6)
    scheduler.send(user(0, prompt(3), 14))
    for _ in range(2):
        scheduler.step()
    free = scheduler.cache_manager.available_size
    scheduler.send(user(1, prompt(2), 3), user(2, prompt(1), 1))
    scheduler.step()
    before = [phase for phase, _ in scheduler.batches]
    replies = heard(scheduler)
    rows = [[phase, [uid for uid, *_ in rows]] for phase, rows in scheduler.batches]
    return [free, before, replies, rows.index(["prefill", [1, 2]])]


def judge_what_running_requests_were_promised_is_not_given_away(seed, got):
    equal(got[0], 24 - 4, "tokens of free pages while request 0 has taken one of its five")
    equal(got[1], ["prefill", "decode", "decode"], "batches: the next two have to wait")
    want = [[0, said(prompt(3), 14)], [1, said(prompt(2), 3)], [2, said(prompt(1), 1)]]
    equal(got[2:], [want, 14], "replies; the batch with which the next two start")


WAITING = ((0, 6, 6), (1, 9, 4), (2, 1, 1))


def probe_the_first_that_has_to_wait_keeps_the_others_behind_it(seed):
    scheduler = stub_scheduler(num_page_override=16)
    for uid, tokens, output in WAITING:
        scheduler.send(user(uid, prompt(tokens), output))
    replies = heard(scheduler)
    return [[[phase, [uid for uid, *_ in rows]] for phase, rows in scheduler.batches], replies]


def judge_the_first_that_has_to_wait_keeps_the_others_behind_it(seed, got):
    want = [["prefill", [0]], *[["decode", [0]]] * 5, ["prefill", [1, 2]], *[["decode", [1]]] * 3]
    equal(got[0], want, "batches; request 2 would have fitted beside request 0")
    equal(got[1], [[uid, said(prompt(n), m)] for uid, n, m in WAITING], "replies")


def probe_a_request_waits_for_a_row_and_takes_the_first_that_is_free(seed):
    scheduler = stub_scheduler(max_running_req=2)
    for uid, output in enumerate((3, 5, 2, 2)):
        scheduler.send(user(uid, prompt(uid + 1), output))
    replies = heard(scheduler)
    return [[[phase, [uid for uid, *_ in rows]] for phase, rows in scheduler.batches], replies]


def judge_a_request_waits_for_a_row_and_takes_the_first_that_is_free(seed, got):
    want = [["prefill", [0, 1]], ["decode", [0, 1]], ["decode", [0, 1]], ["prefill", [2]],
            ["decode", [1, 2]], ["prefill", [3]], ["decode", [1, 3]]]  # fmt: skip
    equal(got[0], want, "batches on two rows")
    outputs = enumerate((3, 5, 2, 2))
    equal(got[1], [[uid, said(prompt(uid + 1), output)] for uid, output in outputs], "replies")


def probe_nobody_runs_out_of_pages_or_starves(seed):
    found = []
    for size, pages in ((1, 24), (4, 6), (16, 2)):
        rng = np.random.default_rng(seed)
        scheduler = stub_scheduler(page_size=size, num_page_override=pages, max_running_req=5)
        lengths = rng.integers(1, 12, (40, 2)).tolist()
        for uid, (tokens, output) in enumerate(lengths):
            scheduler.send(user(uid, prompt(tokens), output))
            scheduler.engine.expect(uid, prompt(tokens) + answer(prompt(tokens), output))
            for _ in range(int(rng.integers(0, 4))):
                if scheduler.inbox or scheduler._runnable:
                    scheduler.step()
        replies = heard(scheduler)
        rows = [rows for phase, rows in scheduler.batches if phase == "prefill"]
        found.append([lengths, replies, scheduler.engine.wrong])
        found[-1].append([uid for batch in rows for uid, *_ in batch])
        found[-1].append(max(len(rows) for _, rows in scheduler.batches))
    return found


def judge_nobody_runs_out_of_pages_or_starves(seed, got):
    for size, (lengths, replies, wrong, started, most) in zip((1, 4, 16), got, strict=True):
        want = [[uid, said(prompt(n), m)] for uid, (n, m) in enumerate(lengths)]
        equal([replies, wrong], [want, []], f"replies, wrong slots at page size {size}")
        equal(started, list(range(40)), f"the order in which requests start, page size {size}")
        truth(most > 1, f"some run at the same time at page size {size}", most)


SIZES = ((1, 16), (4, 4), (16, 1))
LONG = (20, 16, 15, 3)


@public_bug("B52", "B53")
def probe_a_request_larger_than_the_pool_is_refused_and_the_next_one_runs(seed):
    found = []
    for size, pages in SIZES:
        made = {"page_size": size, "num_page_override": pages, "max_seq_len_override": 64}
        scheduler = stub_scheduler(**made)
        scheduler.send(*(user(uid, prompt(n), 9) for uid, n in enumerate(LONG)))
        scheduler.step()
        first = [[uid, replies[-1][1]] for uid, replies in sorted(scheduler.replies.items())]
        found.append([first, heard(scheduler), scheduler.engine.wrong])
    return found


def judge_a_request_larger_than_the_pool_is_refused_and_the_next_one_runs(seed, got):
    for (size, pages), (first, replies, wrong) in zip(SIZES, got, strict=True):
        what = f"a pool of {pages} pages of {size}"
        equal(first, [[0, True], [1, True], [2, True]], f"who has ended after one step: {what}")
        for (_, [error]), length in zip(replies[:2], LONG, strict=False):
            equal(error[:2], [-1, True], f"token and finished of a refusal: {what}")
            got_error = {"kind": "refusal", "message": error[2]}
            refused(got_error, what, f"{length} tokens", "may have 16", "at most 15")
        want = [[2, said(prompt(15), 1)], [3, said(prompt(3), 9)]]
        equal([replies[2:], wrong], [want, []], f"replies to prompts of 15 and 3, wrong: {what}")


LIMITS = (
    (40, 100, 30, 30, 10),  # a limit that is no multiple of 32 is not rounded up
    (40, 100, 39, 5, 1),
    (40, 100, 40, 5, None),
    (40, 100, 50, 5, None),
    (64, 32, 31, 10, 1),
    (64, 32, 32, 10, None),
    (64, 32, 5, 27, 27),
    (64, 32, 5, 28, 27),
    (64, 32, 5, 5, 5),
)
"""Pool and model limit in tokens, prompt, max_tokens, and how many tokens it gets, if any."""


@public_bug("B50", "B53", "B91")
def probe_an_output_is_cut_to_what_fits_and_a_prompt_is_not(seed):
    found = []
    for pool, limit, tokens, output, _ in LIMITS:
        scheduler = stub_scheduler(num_page_override=pool, max_seq_len_override=limit)
        message = user(7, prompt(tokens), output)
        scheduler.send(message)
        found.append([scheduler.run()[7], message.sampling_params.max_tokens])
    return found


def judge_an_output_is_cut_to_what_fits_and_a_prompt_is_not(seed, got):
    for (pool, limit, tokens, output, count), (replies, after) in zip(LIMITS, got, strict=True):
        what = f"a prompt of {tokens} and {output} more, pool {pool}, limit {limit}"
        equal(after, output, f"max_tokens of the caller's SamplingParams afterwards: {what}")
        if count is not None:
            equal(replies, said(prompt(tokens), count), f"replies: {what}")
        else:
            equal([len(replies), *replies[0][:2]], [1, -1, True], f"refusal: {what}")
            refused({"kind": "", "message": replies[0][2]}, what, "shorten", f"{tokens} tokens")


WRONG = (
    ([], ("empty",)),
    ([5, 97], ("token id 97", "vocabulary of 97")),
    ([-1, 5], ("token id -1", "vocabulary of 97")),
    ([5, 1 << 30, 6], (f"token id {1 << 30}",)),
)


def probe_a_prompt_that_can_not_be_computed_is_refused(seed):
    scheduler = stub_scheduler()
    scheduler.send(*(user(uid, ids) for uid, (ids, _) in enumerate(WRONG)), user(9, [0, 96], 2))
    return [heard(scheduler), scheduler.cache_manager.available_size]


def judge_a_prompt_that_can_not_be_computed_is_refused(seed, got):
    replies, free = got
    for (ids, words), (_, [error]) in zip(WRONG, replies, strict=False):
        equal(error[:2], [-1, True], f"token and finished of the refusal of {ids}")
        refused({"kind": "", "message": error[2]}, f"prompt {ids}", *words)
    equal(replies[len(WRONG) :], [[9, said([0, 96], 2)]], "replies to the one behind them")
    equal(free, 64, "free pages")
