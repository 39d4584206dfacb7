"""Chapter 07: requests come and go step by step, and each gets exactly its own tokens."""

from __future__ import annotations

import gc
import weakref
from typing import Any
from unittest.mock import patch

from pairs import equal, error_of, public_bug, refused, truth
from stub_engine import abort, answer, said, stub_scheduler, user

A, B, C = [5, 6, 7], [8, 9], [3, 1, 4, 1, 5]
END = answer(A, 6)[3]
"""Request A's fourth token, which none of the tokens before it equals."""


def launched(scheduler: Any) -> list[list[Any]]:
    """Each batch's phase and the uids of its rows."""
    return [[phase, [uid for uid, *_ in rows]] for phase, rows in scheduler.batches]


def heard(scheduler: Any) -> list[list[Any]]:
    """Run until idle; each uid with its replies."""
    return [[uid, replies] for uid, replies in sorted(scheduler.run().items())]


def at_rest(scheduler: Any) -> list[int]:
    """Rows and pages that are free."""
    rows = scheduler.table_manager.available_size
    return [rows, scheduler.cache_manager.available_size]


def probe_requests_join_and_leave_while_others_go_on(seed):
    scheduler = stub_scheduler()
    arrivals = {0: user(0, A, 6), 2: user(1, B, 2), 6: user(2, C, 1)}
    for step in range(8):
        if step in arrivals:
            scheduler.send(arrivals[step])
        scheduler.step()
    return [launched(scheduler), heard(scheduler), scheduler.engine.wrong]


def judge_requests_join_and_leave_while_others_go_on(seed, got):
    want = [["prefill", [0]], ["decode", [0]], ["prefill", [1]], ["decode", [0, 1]],
            ["decode", [0]], ["decode", [0]], ["prefill", [2]], ["decode", [0]]]  # fmt: skip
    equal(got[0], want, "the batches of three requests that come in at steps 0, 2 and 6")
    equal(got[1], [[0, said(A, 6)], [1, said(B, 2)], [2, said(C, 1)]], "replies")
    equal(got[2], [], "wrong slots")


def probe_waiting_prompts_go_before_the_next_tokens_and_share_a_batch(seed):
    scheduler = stub_scheduler()
    scheduler.send(user(4, A))
    scheduler.step()
    scheduler.send(user(5, B), user(1, C))
    for _ in range(2):
        scheduler.step()
    return scheduler.batches


def judge_waiting_prompts_go_before_the_next_tokens_and_share_a_batch(seed, got):
    want = [["prefill", [[4, 0, 3]]], ["prefill", [[5, 0, 2], [1, 0, 5]]],
            ["decode", [[1, 5, 6], [4, 3, 4], [5, 2, 3]]]]  # fmt: skip
    equal(got, want, "phase, and uid, cached_len and device_len of each row")


def probe_decode_rows_stand_by_uid_whatever_came_first(seed):
    scheduler = stub_scheduler()
    for uid in (5, 30, 9, 1, 22, 17):
        scheduler.send(user(uid, [uid], 9))
        scheduler.step()
    for _ in range(3):
        scheduler.step()
    return launched(scheduler)[-3:]


def judge_decode_rows_stand_by_uid_whatever_came_first(seed, got):
    equal(got, [["decode", [1, 5, 9, 17, 22, 30]]] * 3, "three decode steps of six requests")


LENGTHS = (1, 2, 3, 7, 12, 5, 4, 9, 1, 6)


def prompts() -> list[list[int]]:
    return [[(31 * uid + 7 * i) % 97 for i in range(n)] for uid, n in enumerate(LENGTHS)]


def probe_each_reply_list_is_what_the_request_gets_alone(seed):
    found = []
    for size, rows in ((1, 8), (4, 3), (16, 1)):
        scheduler = stub_scheduler(page_size=size, max_running_req=rows, num_page_override=64)
        for uid, prompt in enumerate(prompts()):
            tokens = len(prompt) % 4 + 1
            scheduler.engine.expect(uid, prompt + answer(prompt, tokens))
            scheduler.send(user(uid, prompt, tokens))
        replies = scheduler.run()
        found.append([[replies[uid] for uid in range(10)], scheduler.engine.wrong])
        found[-1].append(at_rest(scheduler) == [rows, 64 * size])
    return found


def judge_each_reply_list_is_what_the_request_gets_alone(seed, got):
    want = [said(prompt, len(prompt) % 4 + 1) for prompt in prompts()]
    for size, (replies, wrong, is_free) in zip((1, 4, 16), got, strict=True):
        equal(replies, want, f"replies at page size {size}: token, and finished on the last only")
        equal([wrong, is_free], [[], True], f"wrong slots; everything free, at page size {size}")


@public_bug("B82")
def probe_any_end_id_ends_a_request_unless_it_ignores_them(seed):
    scheduler = stub_scheduler(eos=(96, END))
    scheduler.send(user(0, A, 6), user(1, A, 6, ignore_eos=True), user(2, A, 4), user(3, A, 3))
    replies = scheduler.run()
    return [[replies[uid] for uid in range(4)], launched(scheduler), at_rest(scheduler)]


def judge_any_end_id_ends_a_request_unless_it_ignores_them(seed, got):
    truth(END not in answer(A, 3), "the end id doesn't come earlier", answer(A, 6))
    equal(got[0][0], said(A, 6, eos=(END,)), "replies up to the end id")
    equal(got[0][1], said(A, 6), "replies of a request that ignores it")
    equal(got[0][2:], [said(A, 4), said(A, 3)], "replies of those that end at or before it anyway")
    equal(got[1][-2:], [["decode", [1]]] * 2, "who runs after the end id")
    equal(got[2], [8, 64], "free rows and pages")


@public_bug("B69")
def probe_an_abort_reaches_a_waiting_request_and_no_other(seed):
    scheduler = stub_scheduler(max_running_req=1)
    scheduler.send(user(0, A, 4), user(1, B, 4), user(2, C, 2))
    scheduler.step()
    scheduler.send(abort(1), abort(1), abort(99))
    scheduler.step()
    scheduler.send(abort(1))
    replies = heard(scheduler)
    scheduler.send(abort(0))
    scheduler.run()
    return [replies, launched(scheduler), at_rest(scheduler)]


def judge_an_abort_reaches_a_waiting_request_and_no_other(seed, got):
    equal(got[0], [[0, said(A, 4)], [2, said(C, 2)]], "replies; request 1 was aborted")
    want = [["prefill", [0]], *[["decode", [0]]] * 3, ["prefill", [2]], ["decode", [2]]]
    equal(got[1], want, "the batches")
    equal(got[2], [1, 64], "free rows and pages")


def probe_an_abort_of_a_running_request_gives_its_row_and_pages_back(seed):
    scheduler = stub_scheduler(page_size=4, max_running_req=2)
    scheduler.send(user(0, C, 8), user(1, B, 8))
    for _ in range(3):
        scheduler.step()
    before = at_rest(scheduler)
    scheduler.send(abort(0))
    scheduler.step()
    after = at_rest(scheduler)
    scheduler.send(user(2, C, 3), abort(0))
    return [before, after, heard(scheduler), at_rest(scheduler), scheduler.engine.wrong]


def judge_an_abort_of_a_running_request_gives_its_row_and_pages_back(seed, got):
    equal(got[:2], [[0, 64 * 4 - 12], [1, 64 * 4 - 8]], "free rows and pages before and after")
    want = [[0, said(C, 8)[:3]], [1, said(B, 8)], [2, said(C, 3)]]
    equal(got[2], want, "replies: none for request 0 after its abort")
    equal(got[3:], [[2, 256], []], "free rows and pages at the end, wrong slots")


def probe_a_message_of_an_unknown_kind_is_refused_by_name(seed):
    from minisgl.message import BaseBackendMsg

    class Greeting(BaseBackendMsg):
        pass

    scheduler = stub_scheduler()
    scheduler.send(Greeting())
    return error_of(scheduler.step)


def judge_a_message_of_an_unknown_kind_is_refused_by_name(seed, got):
    refused(got, "an unknown message", "Greeting", kind="NotImplementedError")


def probe_only_an_exception_ends_the_loop(seed):
    import torch

    scheduler = stub_scheduler()
    scheduler.send(user(0, A, 4), user(1, B, 2))
    modes = []
    take = scheduler.offline_send_result
    scheduler.offline_send_result = lambda reply: (
        modes.append(torch.is_inference_mode_enabled()),
        take(reply),
    )
    ended = error_of(scheduler.run_forever)
    return [ended, heard(scheduler), all(modes)]


def judge_only_an_exception_ends_the_loop(seed, got):
    refused(got[0], "the loop, once its intake has nothing more", kind="Done")
    equal(got[1], [[0, said(A, 4)], [1, said(B, 2)]], "replies")
    equal(got[2], True, "inference mode in each step")


def probe_a_row_that_was_not_given_back_is_found_when_idle(seed):
    scheduler = stub_scheduler()
    sound = error_of(scheduler.run_when_idle)
    scheduler.table_manager.allocate()
    return [sound, error_of(scheduler.run_when_idle), error_of(scheduler.step)]


def judge_a_row_that_was_not_given_back_is_found_when_idle(seed, got):
    equal(got[0], None, "problem of a fresh scheduler")
    refused(got[1], "a leaked row", "rows", "no request", "1", kind="RuntimeError")
    equal(got[2], got[1], "what an idle step finds")


def probe_shutdown_reaches_the_engine(seed):
    scheduler, called = stub_scheduler(), []
    scheduler.engine.shutdown = lambda: called.append("engine")
    scheduler.shutdown()
    return called


def judge_shutdown_reaches_the_engine(seed, got):
    equal(got, ["engine"], "what was shut down")


def probe_new_prompts_in_every_step_dont_keep_the_running_request_waiting(seed):
    made, first = stub_scheduler(num_page_override=256), []
    made.send(user(0, [1, 2, 3], 6, ignore_eos=True))
    for uid in range(1, 101):
        made.send(user(uid, [uid % 90, 4], 1, ignore_eos=True))
        made.step()
        first.append(len(made.replies.get(0, [])))
    made.run()
    return {"steps": first, "tokens": made.tokens(0), "others": [made.tokens(u) for u in (1, 100)]}


def judge_new_prompts_in_every_step_dont_keep_the_running_request_waiting(seed, got):
    done = next(i for i, tokens in enumerate(got["steps"], start=1) if tokens == 6)
    truth(done <= 60, "all 6 tokens come within 60 steps", done)
    truth(got["steps"][7] == 1, "prompts come first for a while", got["steps"][:10])
    equal(got["tokens"], answer([1, 2, 3], 6), "the running request's tokens")
    equal(got["others"], [answer([1, 4], 1), answer([10, 4], 1)], "tokens of the others")


def probe_a_running_request_gets_a_step_after_eight_batches_of_prompts(seed):
    made = stub_scheduler(num_page_override=256)
    made.send(user(0, A, 30))
    for uid in range(1, 31):
        if uid not in (4, 5):  # two steps without a new prompt
            made.send(user(uid, [uid, 4], 1))
        made.step()
    return [phase for phase, _ in launched(made)]


def judge_a_running_request_gets_a_step_after_eight_batches_of_prompts(seed, got):
    eight = [*["prefill"] * 8, "decode"]
    want = [*["prefill"] * 3, *["decode"] * 2, *eight, *eight]
    equal(got[: len(want)], want, "batches: eight of prompts, counted anew after each decode step")


def probe_a_new_scheduler_waits_for_the_device_before_it_makes_its_tables(seed):
    seen = []
    waits = "minisgl.scheduler.scheduler.synchronize"
    with patch(waits, lambda device: seen.append(device.type)):
        stub_scheduler()
    return seen


def judge_a_new_scheduler_waits_for_the_device_before_it_makes_its_tables(seed, got):
    equal(got, ["cpu"], "the devices that were waited for")


def probe_max_tokens_that_became_zero_are_refused(seed):
    scheduler, message = stub_scheduler(), user(1, A, 2)
    message.sampling_params.max_tokens = 0
    scheduler.send(message, user(2, B, 2))
    return [heard(scheduler), launched(scheduler), at_rest(scheduler)]


def judge_max_tokens_that_became_zero_are_refused(seed, got):
    [token, finished, error] = got[0][0][1][0]
    equal([token, finished], [-1, True], "reply to a request for no token")
    refused({"message": error}, "no token", "max_tokens", "0")
    equal(got[0][1], [2, said(B, 2)], "replies to the one behind it")
    equal(got[1], [["prefill", [2]], ["decode", [2]]], "batches")
    equal(got[2], [8, 64], "free rows and pages")


def probe_shutdown_lets_all_tables_go_and_may_be_called_twice(seed):
    scheduler = stub_scheduler()
    scheduler.send(user(1, A, 2))
    scheduler.run()
    token_pool = scheduler.table_manager.token_pool
    parts = (scheduler.table_manager, scheduler.cache_manager, scheduler.prefill_manager)
    held = [weakref.ref(part) for part in (*parts, token_pool)]
    before = [ref() is not None for ref in held]
    del parts, token_pool
    errors = [error_of(scheduler.shutdown), error_of(scheduler.shutdown)]
    gc.collect()
    return [before, [ref() is None for ref in held], errors]


def judge_shutdown_lets_all_tables_go_and_may_be_called_twice(seed, got):
    equal(got[0], [True] * 4, "rows, pages, queue and token pool are there")
    equal(got[1], [True] * 4, "and are gone after shutdown")
    equal(got[2], [None, None], "errors of two shutdowns")
