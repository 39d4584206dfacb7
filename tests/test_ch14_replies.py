"""Chapter 14: what a reply says beside its token: counts of the prompt, log-probabilities."""

from __future__ import annotations

from typing import Any

from pairs import close, equal, truth
from stub_engine import answer, said_logprobs, stub_scheduler, user
from stub_online import outside, serve

A, B, C = [5, 6, 7], [8, 9], [3, 1, 4, 1, 5]
LONG = list(range(20, 41))


def noting(**settings: Any) -> tuple[Any, list[Any]]:
    """An offline scheduler and the messages that it sends."""
    scheduler = stub_scheduler(**settings)
    sent: list[Any] = []
    send = scheduler.send_result
    scheduler.send_result = lambda reply: (sent.extend(reply), send(reply))
    return scheduler, sent


def counts(sent: list[Any], uid: int) -> list[list[int]]:
    return [[msg.prompt_tokens, msg.cached_tokens] for msg in sent if msg.uid == uid]


def probe_the_first_reply_says_how_long_the_prompt_was_and_how_much_was_cached(seed):
    got = []
    for page_size, overlap in ((1, False), (1, True), (4, True)):
        settings = {"cache_type": "radix", "page_size": page_size, "overlap": overlap}
        scheduler, sent = noting(num_page_override=256 // page_size, **settings)
        for uid, prompt in enumerate((LONG, LONG, [*LONG, 1, 2], LONG[:9], B)):
            scheduler.send(user(uid, prompt, 3))
            scheduler.run()
        got.append([counts(sent, uid) for uid in range(5)])
    return got


def judge_the_first_reply_says_how_long_the_prompt_was_and_how_much_was_cached(seed, got):
    later = [[0, 0], [0, 0]]
    by_token = [[[21, 0], *later], [[21, 20], *later], [[23, 21], *later], [[9, 8], *later]]
    by_page = [[[21, 0], *later], [[21, 20], *later], [[23, 20], *later], [[9, 8], *later]]
    alone = [[[2, 0], *later]]
    equal(got, [by_token + alone] * 2 + [by_page + alone], "prompt and cached tokens by reply")


def probe_counts_are_the_same_when_the_prompt_comes_in_chunks(seed):
    got = []
    for overlap in (False, True):
        settings = {"cache_type": "radix", "max_extend_tokens": 4, "overlap": overlap}
        scheduler, sent = noting(**settings)
        for uid, prompt in enumerate((LONG, [*LONG, *C, *C], LONG)):
            scheduler.send(user(uid, prompt, 2))
            scheduler.run()
        got.append([[counts(sent, uid) for uid in range(3)], len(scheduler.batches)])
    return got


def judge_counts_are_the_same_when_the_prompt_comes_in_chunks(seed, got):
    want = [[[21, 0], [0, 0]], [[31, 21], [0, 0]], [[21, 20], [0, 0]]]
    for found, batches in got:
        equal(found, want, "prompt and cached tokens by reply")
        truth(batches >= 6 + 3 + 1 + 3, "prompts were cut", batches)


def probe_a_refusal_counts_nothing(seed):
    scheduler, sent = noting(max_seq_len_override=8)
    scheduler.send(user(0, [1] * 9, 3, top_logprobs=2))
    scheduler.run()
    return [counts(sent, 0), [[msg.logprob_ids, msg.logprobs] for msg in sent]]


def judge_a_refusal_counts_nothing(seed, got):
    equal(got, [[[0, 0]], [[None, None]]], "counts and log-probabilities of a refusal")


def asked(sent: list[Any], uid: int) -> list[list[Any]]:
    return [[msg.next_token, msg.logprob_ids, msg.logprobs] for msg in sent if msg.uid == uid]


WANTED: tuple[int | None, ...] = (None, 3, 0, None, 5, 1)


def probe_each_request_gets_the_log_probabilities_of_its_own_row(seed):
    got = []
    for overlap in (False, True):
        scheduler, sent = noting(overlap=overlap, max_running_req=4)
        for uid, count in enumerate(WANTED):  # those that end make rows move up
            scheduler.send(user(uid, [uid + 1] * (uid + 2), 2 + uid % 3, top_logprobs=count))
        scheduler.run()
        got.append([asked(sent, uid) for uid in range(len(WANTED))])
    return got


def with_logprobs(prompt: list[int], max_tokens: int, count: int | None) -> list[list[Any]]:
    tokens = answer(prompt, max_tokens)
    values = [said_logprobs(token, count or 0) for token in tokens]
    if count is None:
        return [[token, None, None] for token in tokens]
    return [[token, *pair] for token, pair in zip(tokens, values, strict=True)]


def judge_each_request_gets_the_log_probabilities_of_its_own_row(seed, got):
    for found in got:
        for uid, count in enumerate(WANTED):
            want = with_logprobs([uid + 1] * (uid + 2), 2 + uid % 3, count)
            close(found[uid], want, 1e-6, f"token, ids and values of request {uid}")


ENDS = answer([1, 1], 6)[2]
"""The first request's third token; it ends that one while the next batch already holds it."""


def probe_one_that_has_ended_in_flight_moves_no_row(seed):
    scheduler, sent = noting(overlap=True, eos=(ENDS,))
    scheduler.send(user(0, [1, 1], 6, top_logprobs=1), user(1, A, 6, top_logprobs=2))
    scheduler.send(user(2, C, 6, top_logprobs=3))
    scheduler.run()
    return [[asked(sent, uid) for uid in range(3)], scheduler.batches[3][1]]


def judge_one_that_has_ended_in_flight_moves_no_row(seed, got):
    equal([uid for uid, *_ in got[1]], [0, 1, 2], "the rows of the batch after its end")
    close(got[0][0], with_logprobs([1, 1], 3, 1), 1e-6, "the one that ended")
    close(got[0][1], with_logprobs(A, 6, 2), 1e-6, "the row behind it")
    close(got[0][2], with_logprobs(C, 6, 3), 1e-6, "the next row")


def probe_chunks_of_other_prompts_in_the_batch_move_no_row(seed):
    got = []
    for overlap in (False, True):
        scheduler, sent = noting(overlap=overlap, max_extend_tokens=6, max_running_req=4)
        scheduler.send(user(0, A, 5, top_logprobs=2), user(1, LONG, 2, top_logprobs=1))
        scheduler.send(user(2, B, 4))
        scheduler.run()
        got.append([asked(sent, uid) for uid in range(3)])
    return got


def judge_chunks_of_other_prompts_in_the_batch_move_no_row(seed, got):
    for found in got:
        for uid, request in enumerate(((A, 5, 2), (LONG, 2, 1), (B, 4, None))):
            close(found[uid], with_logprobs(*request), 1e-6, f"request {uid}")


def probe_counts_and_log_probabilities_go_through_the_queue(seed):
    with outside() as o:
        scheduler = o.scheduler(cache_type="radix")
        for uid in range(2):
            o.send(user(uid, LONG, 2, top_logprobs=1 + uid))
            serve(scheduler)
        sent = [msg for frame in o.frames(scheduler) for msg in frame if hasattr(msg, "uid")]
        return [[counts(sent, uid), asked(sent, uid)] for uid in range(2)]


def judge_counts_and_log_probabilities_go_through_the_queue(seed, got):
    for uid, cached in enumerate((0, 20)):
        equal(got[uid][0], [[21, cached], [0, 0]], "counts")
        close(got[uid][1], with_logprobs(LONG, 2, 1 + uid), 1e-6, "log-probabilities")
