"""Chapter 01: sampling parameters, requests, batches and the context."""

from __future__ import annotations

import torch

from pairs import equal, error_of, public_bug, refused


def make_req(ids=(5, 6, 7), cached_len=0, output_len=2, uid=3):
    """Probe side: a request for a prompt of three tokens."""
    from minisgl.core import Req, SamplingParams

    return Req(
        input_ids=torch.tensor(ids, dtype=torch.int32),
        table_idx=4,
        cached_len=cached_len,
        output_len=output_len,
        uid=uid,
        sampling_params=SamplingParams(),
        cache_handle=None,
    )


def probe_sampling_is_greedy_and_unfiltered_by_default(seed):
    from minisgl.core import SamplingParams

    params = SamplingParams()
    names = ("temperature", "top_k", "top_p", "ignore_eos", "max_tokens", "seed", "is_greedy",
             "presence_penalty", "frequency_penalty", "top_logprobs", "has_penalty")  # fmt: skip
    return {name: getattr(params, name) for name in names}


def judge_sampling_is_greedy_and_unfiltered_by_default(seed, got):
    want = {"temperature": 0.0, "top_k": -1, "top_p": 1.0, "ignore_eos": False}
    want = {**want, "max_tokens": 1024, "seed": None, "is_greedy": True}
    no_penalty = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "has_penalty": False}
    equal(got, {**want, **no_penalty, "top_logprobs": None}, "defaults")


PENALTIES = (
    ({}, False),
    ({"presence_penalty": 0, "frequency_penalty": 0.0}, False),
    ({"presence_penalty": 0.5}, True),
    ({"frequency_penalty": -2}, True),
    ({"presence_penalty": 1.0, "frequency_penalty": -1.0}, True),
)


def probe_a_request_has_a_penalty_when_either_of_them_is_not_zero(seed):
    from minisgl.core import SamplingParams

    return [SamplingParams(**given).has_penalty for given, _ in PENALTIES]


def judge_a_request_has_a_penalty_when_either_of_them_is_not_zero(seed, got):
    equal(got, [want for _, want in PENALTIES], "has_penalty")


@public_bug("B30")
def probe_temperature_zero_or_one_candidate_is_greedy_whatever_the_filters(seed):
    from minisgl.core import SamplingParams

    return [SamplingParams(**given).is_greedy for given, _ in GREEDY]


GREEDY = (
    ({"temperature": 0.0, "top_p": 0.9, "top_k": 5}, True),
    ({"temperature": 1.0, "top_k": 1}, True),
    ({"temperature": 1.0, "top_k": 1, "top_p": 0.5}, True),
    ({"temperature": 1.0}, False),
    ({"temperature": 1e-6}, False),
    ({"temperature": 1.0, "top_k": 2}, False),
    ({"temperature": 1.0, "top_p": 0.1}, False),
)


def judge_temperature_zero_or_one_candidate_is_greedy_whatever_the_filters(seed, got):
    for (given, want), found in zip(GREEDY, got, strict=True):
        equal(found, want, f"is_greedy of {given}")


BEYOND_2 = (-2.01, 2.01, float("inf"), float("nan"))
WRONG = (
    ("temperature", -0.1),
    ("temperature", float("inf")),
    ("temperature", float("nan")),
    ("top_k", 0),
    ("top_k", -2),
    ("top_p", 0.0),
    ("top_p", 1.01),
    ("top_p", float("nan")),
    ("max_tokens", 0),
    ("max_tokens", -1),
    *((f"{kind}_penalty", value) for kind in ("presence", "frequency") for value in BEYOND_2),
    ("top_logprobs", -1),
    ("top_logprobs", 21),
)
EDGES = (
    ("temperature", 0.0), ("temperature", 100.0), ("top_k", -1), ("top_k", 1), ("top_p", 1.0),
    ("presence_penalty", -2.0), ("presence_penalty", 2.0), ("frequency_penalty", -2.0),
    ("frequency_penalty", 2.0), ("top_logprobs", 0), ("top_logprobs", 20),
)  # fmt: skip


def probe_sampling_values_out_of_range_are_refused_by_name(seed):
    from minisgl.core import SamplingParams

    return [error_of(lambda n=n, v=v: SamplingParams(**{n: v})) for n, v in (*WRONG, *EDGES)]


def judge_sampling_values_out_of_range_are_refused_by_name(seed, got):
    for (name, value), error in zip(WRONG, got[: len(WRONG)], strict=True):
        refused(error, f"{name}={value}", name, str(value), kind="ValueError")
    equal(got[len(WRONG) :], [None] * len(EDGES), "errors at the edges of the ranges")


WRONG_KINDS = (
    *(("top_k", value) for value in (5.0, True, "5", None)),
    *(("max_tokens", value) for value in (2.5, 4.0, True, "4", None)),
    *(("seed", value) for value in (1.5, False, "7")),
    *(("temperature", value) for value in ("0.5", True, None)),
    *(("top_p", value) for value in ("1", True, None)),
    *(("presence_penalty", value) for value in ("1", True, None)),
    *(("frequency_penalty", value) for value in ("1", False, None)),
    *(("top_logprobs", value) for value in (2.0, True, "5")),
)
REAL = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
RIGHT_KINDS = (
    ("temperature", 1), ("top_p", 1), ("seed", None), ("seed", -3), ("seed", 1 << 70),
    ("presence_penalty", 1), ("frequency_penalty", -2), ("top_logprobs", None),
)  # fmt: skip


def probe_sampling_values_of_another_kind_are_refused_by_name(seed):
    from minisgl.core import SamplingParams

    given = (*WRONG_KINDS, *RIGHT_KINDS)
    return [error_of(lambda n=n, v=v: SamplingParams(**{n: v})) for n, v in given]


def judge_sampling_values_of_another_kind_are_refused_by_name(seed, got):
    for (name, value), error in zip(WRONG_KINDS, got, strict=False):
        kind = "a number" if name in REAL else "a whole number"
        refused(error, f"{name}={value!r}", name, kind, f"not {value!r}", kind="ValueError")
    equal(got[len(WRONG_KINDS) :], [None] * len(RIGHT_KINDS), "errors for right kinds")


def probe_a_request_knows_what_to_compute_and_when_it_ends(seed):
    req = make_req(cached_len=1)
    states = []
    for token in (8, 9):
        states.append([req.cached_len, req.device_len, req.extend_len, req.remain_len])
        states[-1].append(req.can_decode)
        req.complete_one()
        req.append_host(torch.tensor([token], dtype=torch.int32))
    states.append([req.cached_len, req.device_len, req.extend_len, req.remain_len])
    states[-1].append(req.can_decode)
    return {"states": states, "max": req.max_device_len, "ids": req.input_ids.tolist()}


def judge_a_request_knows_what_to_compute_and_when_it_ends(seed, got):
    want = [[1, 3, 2, 2, True], [3, 4, 1, 1, True], [4, 5, 1, 0, False]]
    equal(got["states"], want, "cached, device, extend and remain length, can_decode, by step")
    equal([got["max"], got["ids"]], [5, [5, 6, 7, 8, 9]], "longest length, tokens")


@public_bug("B12")
def probe_the_first_decode_step_computes_the_position_after_the_prompt(seed):
    req = make_req()
    positions = []
    for _ in range(3):
        positions.append(list(range(req.cached_len, req.device_len)))
        req.complete_one()
    return positions


def judge_the_first_decode_step_computes_the_position_after_the_prompt(seed, got):
    equal(got, [[0, 1, 2], [3], [4]], "positions of prefill and of two decode steps")


@public_bug("B06")
def probe_a_request_keeps_its_own_copy_of_the_prompt(seed):
    from minisgl.core import Req, SamplingParams

    prompt = torch.tensor([5, 6, 7], dtype=torch.int32)
    req = Req(prompt, 0, 0, 2, 0, SamplingParams(), None)
    prompt[0] = 99
    kept = req.input_ids.tolist()
    req.input_ids[1] = 77
    return {"kept": kept, "prompt": prompt.tolist(), "dtype": str(req.input_ids.dtype)}


def judge_a_request_keeps_its_own_copy_of_the_prompt(seed, got):
    equal(got["kept"], [5, 6, 7], "the request's tokens after the caller's were changed")
    equal(got["prompt"], [99, 6, 7], "the caller's tokens after the request's were changed")
    equal(got["dtype"], "torch.int32", "dtype")


def probe_appending_a_token_does_not_move_the_ones_before(seed):
    req = make_req()
    places = [req.input_ids.data_ptr()]
    for token in (8, 9):
        req.append_host(torch.tensor([token]))
        places.append(req.input_ids.data_ptr())
    full = error_of(lambda: req.append_host(torch.tensor([10])))
    return {"moves": len(set(places)) - 1, "ids": req.input_ids.tolist(), "full": full}


def judge_appending_a_token_does_not_move_the_ones_before(seed, got):
    equal([got["moves"], got["ids"]], [0, [5, 6, 7, 8, 9]], "moves, tokens")
    refused(got["full"], "a token beyond the last", "request 3", "no room", kind="AssertionError")


def probe_a_request_is_complete_when_its_last_token_has_come_to_the_cpu(seed):
    req, found = make_req(), []
    for token in (8, torch.tensor([9], dtype=torch.int32)):
        found.append([req.is_complete, req.can_decode])
        req.complete_one()
        found.append([req.is_complete, req.can_decode])
        req.append_host(token)
    return [found, req.is_complete, req.input_ids.tolist(), str(req.input_ids.dtype)]


def judge_a_request_is_complete_when_its_last_token_has_come_to_the_cpu(seed, got):
    want = [[False, True], [False, True], [False, True], [False, False]]
    equal(got[0], want, "is_complete and can_decode before and after each of two passes")
    equal(got[1:], [True, [5, 6, 7, 8, 9], "torch.int32"], "is_complete at the end; tokens, dtype")


def probe_a_request_must_have_a_token_to_compute(seed):
    cases = {
        "all cached": lambda: make_req(cached_len=3),
        "negative": lambda: make_req(cached_len=-1),
        "empty prompt": lambda: make_req(ids=()),
        "one left": lambda: make_req(cached_len=2),
    }
    return {name: error_of(case) for name, case in cases.items()}


def judge_a_request_must_have_a_token_to_compute(seed, got):
    refused(got["all cached"], "a request of cached tokens", "request 3", "3 of 3", "last token")
    refused(got["negative"], "a negative cached length", "-1 of 3", kind="AssertionError")
    refused(got["empty prompt"], "an empty prompt", "0 of 0", kind="AssertionError")
    equal(got["one left"], None, "error when one token is left to compute")


def probe_a_requests_tokens_must_lie_on_the_cpu(seed):
    from minisgl.core import Req, SamplingParams

    elsewhere = torch.empty(3, dtype=torch.int32, device="meta")
    return error_of(lambda: Req(elsewhere, 0, 0, 2, 0, SamplingParams(), None))


def judge_a_requests_tokens_must_lie_on_the_cpu(seed, got):
    refused(got, "tokens on another device", "CPU", kind="AssertionError")


def probe_requests_are_told_apart_by_identity_and_shown_by_their_lengths(seed):
    one, same = make_req(), make_req()
    one.complete_one()
    return {"equal": one == same, "same": one == one, "set": len({one, same}), "text": repr(one)}


def judge_requests_are_told_apart_by_identity_and_shown_by_their_lengths(seed, got):
    equal([got["equal"], got["same"], got["set"]], [False, True, 2], "equality and hash")
    equal(got["text"], "Req(uid=3, row=4, cached=3, device=4, max=5)", "how it is shown")


def probe_a_batch_counts_its_requests_and_knows_its_phase(seed):
    from minisgl.core import Batch

    reqs = [make_req(), make_req()]
    found = []
    for phase in ("prefill", "decode"):
        batch = Batch(reqs=reqs, phase=phase)
        found.append([batch.size, batch.padded_size, batch.is_prefill, batch.is_decode])
    batch.padded_reqs = [*reqs, make_req(), make_req()]
    return {"found": found, "padded": [batch.size, batch.padded_size]}


def judge_a_batch_counts_its_requests_and_knows_its_phase(seed, got):
    equal(got["found"], [[2, 2, True, False], [2, 2, False, True]], "size, padded size, phase")
    equal(got["padded"], [2, 4], "size and padded size with two dummies")


def probe_a_context_has_a_batch_only_while_its_pass_runs(seed):
    from minisgl.core import Batch, Context

    ctx, batch = Context(page_size=4), Batch(reqs=[], phase="decode")
    before = error_of(lambda: ctx.batch)
    with ctx.forward_batch(batch):
        inside = ctx.batch is batch
        nested = error_of(lambda: ctx.forward_batch(batch).__enter__())
        still = ctx.batch is batch
    after = error_of(lambda: ctx.batch)
    return {
        "page_size": ctx.page_size,
        "before": before,
        "inside": inside,
        "nested": nested,
        "still": still,
        "after": after,
    }


def judge_a_context_has_a_batch_only_while_its_pass_runs(seed, got):
    equal([got["page_size"], got["inside"], got["still"]], [4, True, True], "inside the pass")
    for when in ("before", "after"):
        refused(got[when], f"the batch {when} the pass", "forward_batch", kind="AssertionError")
    refused(got["nested"], "a pass inside a pass", "already running", kind="AssertionError")


def probe_a_pass_that_fails_leaves_the_context_free(seed):
    from minisgl.core import Batch, Context

    ctx, batch = Context(page_size=1), Batch(reqs=[], phase="decode")

    def failing():
        with ctx.forward_batch(batch):
            raise RuntimeError("out of memory")

    failed = error_of(failing)
    with ctx.forward_batch(batch):
        return {"failed": failed, "next": ctx.batch is batch}


def judge_a_pass_that_fails_leaves_the_context_free(seed, got):
    refused(got["failed"], "the failing pass", "out of memory", kind="RuntimeError")
    equal(got["next"], True, "whether the next pass has its batch")


def probe_the_process_has_one_context_which_an_idle_moment_may_replace(seed):
    from unittest.mock import patch

    from minisgl import core

    with patch.object(core, "_GLOBAL_CTX", None):
        none = error_of(core.get_global_ctx)
        first, second = core.Context(page_size=1), core.Context(page_size=1)
        core.set_global_ctx(first)
        found = [core.get_global_ctx() is first]
        with first.forward_batch(core.Batch(reqs=[], phase="decode")):
            busy = error_of(lambda: core.set_global_ctx(second))
            found.append(core.get_global_ctx() is first)
        core.set_global_ctx(second)
        found.append(core.get_global_ctx() is second)
    return {"none": none, "busy": busy, "found": found}


def judge_the_process_has_one_context_which_an_idle_moment_may_replace(seed, got):
    refused(got["none"], "a context that was never set", "set_global_ctx", kind="AssertionError")
    refused(got["busy"], "a change during a pass", "running", kind="AssertionError")
    equal(got["found"], [True, True, True], "whether the expected context is found")


def probe_a_context_is_made_without_a_batch(seed):
    from minisgl.core import Context

    return [error_of(lambda: Context(page_size=1, _batch=None)),
            error_of(lambda: Context(page_size=1).batch)]  # fmt: skip


def judge_a_context_is_made_without_a_batch(seed, got):
    refused(got[0], "a batch given to the constructor", "_batch", kind="TypeError")
    refused(got[1], "the batch of a new context", "no forward pass")
