"""Chapter 06: the log-probabilities of the tokens, as the model gave them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from pairs import checkpoint, close, draw, equal, public_bug, truth

VOCAB = 40


def batch(asks: list[dict[str, Any]]) -> Any:
    """A batch of requests with these sampling parameters, each on a row of its own."""
    from minisgl.core import Batch, Req, SamplingParams

    ids = torch.arange(3, dtype=torch.int32)
    return Batch(
        [Req(ids, row, 0, 8, row, SamplingParams(**ask), None) for row, ask in enumerate(asks)],
        "prefill",
    )


def asked_for(asks: list[dict[str, Any]], vocab: int = VOCAB) -> int | None:
    """How many log-probabilities a sampler prepares to give."""
    from minisgl.engine.sample import Sampler

    return Sampler(torch.device("cpu"), vocab).prepare(batch(asks)).top_logprobs


def log_softmax(logits: Any) -> np.ndarray:
    wide = np.array(logits, dtype=np.float64)
    wide = wide - wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def probe_the_most_that_a_request_of_the_batch_asks_for_is_prepared(seed):
    warm = {"temperature": 1.0}
    asks = [
        [{}, warm],
        [{}, {"top_logprobs": 0}],
        [{"top_logprobs": 3}, {**warm, "top_logprobs": 7}, {}],
        [{"top_logprobs": 20}],
        [{**warm, "top_logprobs": 5}],
    ]
    return [*map(asked_for, asks), asked_for([{"top_logprobs": 20}, {}], vocab=4)]


def judge_the_most_that_a_request_of_the_batch_asks_for_is_prepared(seed, got):
    equal(got, [None, 0, 7, 20, 5, 4], "k of five batches, and of one for a vocabulary of 4")


def probe_they_are_the_log_softmax_of_the_logits(seed):
    from minisgl.engine.sample import log_probs

    found = log_probs(torch.from_numpy(3 * draw(seed, 5, VOCAB)), torch.tensor([0, 39, 7, 7, 2]), 6)
    kinds = [[str(x.dtype), list(x.shape)] for x in found]
    return [kinds, *(x.tolist() for x in found), list(found._fields)]


def judge_they_are_the_log_softmax_of_the_logits(seed, got):
    kinds, chosen, top, ids, names = got
    every = log_softmax(3 * draw(seed, 5, VOCAB))
    want = [["torch.float32", [5]], ["torch.float32", [5, 6]], ["torch.int32", [5, 6]]]
    equal([kinds, names], [want, ["chosen", "top", "top_ids"]], "dtypes, shapes and names")
    close(chosen, every[range(5), [0, 39, 7, 7, 2]], 1e-5, "log-probabilities of the tokens")
    equal(ids, np.argsort(-every, axis=-1)[:, :6], "ids of the 6 best, best first")
    close(top, -np.sort(-every, axis=-1)[:, :6], 1e-5, "log-probabilities of the 6 best")


def probe_none_or_all_of_the_vocabulary_may_be_asked_for(seed):
    from minisgl.engine.sample import log_probs

    logits = torch.from_numpy(draw(seed, 2, 4))
    return [[part.tolist() for part in log_probs(logits, torch.tensor([1, 3]), k)] for k in (0, 4)]


def judge_none_or_all_of_the_vocabulary_may_be_asked_for(seed, got):
    every = log_softmax(draw(seed, 2, 4))
    close(got[0], [[every[0, 1], every[1, 3]], [[], []], [[], []]], 1e-5, "with k 0")
    close(got[1][0], got[0][0], 1e-6, "the tokens' own with k 4, and with k 0")
    equal([sorted(ids) for ids in got[1][2]], [[0, 1, 2, 3]] * 2, "ids of all 4 tokens")


@public_bug("B35")
def probe_a_token_that_cant_be_drawn_has_minus_infinity_and_nothing_is_nan(seed):
    from minisgl.engine.sample import log_probs

    logits = torch.full((2, VOCAB), -math.inf)
    logits[:, 9] = torch.tensor([-3.0, 1e4])
    return [part.tolist() for part in log_probs(logits, torch.tensor([9, 9]), 5)]


def judge_a_token_that_cant_be_drawn_has_minus_infinity_and_nothing_is_nan(seed, got):
    equal(got[0], [0.0, 0.0], "log-probability of the only token that is left")
    equal(got[1], [[0.0] + [-math.inf] * 4] * 2, "the 5 best of a vocabulary masked to one token")
    equal([ids[0] for ids in got[2]], [9, 9], "the best token")
    truth(all(len(set(ids)) == 5 for ids in got[2]), "five different ids", got[2])


def probe_bfloat16_logits_are_taken_as_their_float32_values(seed):
    from minisgl.engine.sample import log_probs

    logits = torch.from_numpy(draw(seed, 3, VOCAB)).bfloat16()
    found = [log_probs(x, torch.tensor([1, 2, 3]), 4) for x in (logits, logits.float())]
    return [[str(x.top.dtype), x.chosen.tolist(), x.top.tolist()] for x in found]


def judge_bfloat16_logits_are_taken_as_their_float32_values(seed, got):
    equal(got[0], got[1], "dtype and values of bfloat16 logits, and of the same as float32")


PROMPTS = [[3, 1, 4, 1], [5], [9, 2, 6]]


def passes(asks: list[dict[str, Any]], padding: int = 0, count: int = 4) -> list[dict[str, Any]]:
    """What a real engine gives in each pass of three requests, and the logits it came from."""
    from minisgl.core import Batch, Req, SamplingParams
    from minisgl.distributed.info import DistributedInfo
    from minisgl.engine import Engine, EngineConfig

    made = Engine(EngineConfig(checkpoint("tiny-qwen3"), DistributedInfo(0, 1), torch.float32,
                               max_running_req=4, num_page_override=128))  # fmt: skip
    table, found = made.ctx.page_table, []
    table[:, :32] = torch.arange(128, dtype=torch.int32).view(4, 32)

    def request(row: int, ids: list[int], ask: dict[str, Any]) -> Any:
        tokens = torch.tensor(ids, dtype=torch.int32)
        return Req(tokens, row, 0, count, row, SamplingParams(**ask), None)

    reqs = [request(i, ids, ask) for i, (ids, ask) in enumerate(zip(PROMPTS, asks, strict=True))]
    forward = made.model.forward

    def noted() -> torch.Tensor:
        logits = forward()
        found.append({"logits": logits.tolist()})
        return logits

    made.model.forward = noted
    for step in range(count):
        batch = Batch(reqs, "decode" if step else "prefill")
        batch.padded_reqs = [*reqs, *(request(3, [0], asks[0]) for _ in range(padding))]
        spans = [torch.arange(req.cached_len, req.device_len) for req in batch.padded_reqs]
        batch.positions = torch.cat(spans).to(table.device)
        pairs = list(zip(batch.padded_reqs, spans, strict=True))
        batch.input_ids = torch.cat([req.input_ids[span] for req, span in pairs]).to(table.device)
        batch.out_loc = torch.cat([table[req.table_idx, span] for req, span in pairs])
        made.ctx.attn_backend.prepare_metadata(batch)
        output = made.forward_batch(batch, made.sampler.prepare(batch))
        output.copy_done_event.synchronize()
        tokens, given = output.next_tokens_cpu.tolist(), output.logprobs
        found[-1]["tokens"] = tokens
        found[-1]["given"] = given and [part.tolist() for part in given]
        found[-1]["devices"] = given and [str(part.device) for part in given]
        for req, token in zip(reqs, tokens, strict=True):
            req.append_host(token)
    return found


LOUD = {"temperature": 1.5, "top_k": 4, "seed": 1, "presence_penalty": 2.0, "top_logprobs": 5}


def probe_an_engine_gives_those_of_the_raw_logits_on_the_cpu(seed):
    asks = [LOUD, {"frequency_penalty": -2.0, "top_logprobs": 2}, {"temperature": 1.0, "seed": 2}]
    return [passes(asks), passes(asks, padding=2)]


def judge_an_engine_gives_those_of_the_raw_logits_on_the_cpu(seed, got):
    for step in [step for run in got for step in run]:
        every = log_softmax(step["logits"])[:3]
        chosen, top, ids = step["given"]
        equal(step["devices"], ["cpu"] * 3, "devices")
        close(chosen, every[range(3), step["tokens"]], 1e-4, "those of the tokens that were drawn")
        close(top, -np.sort(-every, axis=-1)[:, :5], 1e-4, "the 5 best of each row")
        close(top, np.take_along_axis(every, np.array(ids), -1), 1e-4, "those of the best ids")
    equal([x["tokens"] for x in got[1]], [x["tokens"] for x in got[0]], "tokens with padding")
    equal([len(x["logits"]) for x in got[1][1:]], [5] * 3, "rows of the padded passes")


def probe_asking_for_them_changes_no_token_and_nobody_asking_gives_none(seed):
    loud = {k: v for k, v in LOUD.items() if k != "top_logprobs"}
    asks = [loud, {}, {"temperature": 1.0, "seed": 2}]
    quiet, asking = passes(asks), passes([{**ask, "top_logprobs": 0} for ask in asks])
    return [
        [[x["tokens"] for x in run] for run in (quiet, asking)],
        [x["given"] for x in quiet],
        [[len(part) for part in x["given"]] for x in asking],
        [len(row) for x in asking for row in x["given"][1]],
    ]


def judge_asking_for_them_changes_no_token_and_nobody_asking_gives_none(seed, got):
    equal(got[0][1], got[0][0], "tokens of requests that ask, and of the same that don't")
    equal(got[1], [None] * 4, "what is given when nobody asks")
    equal(got[2], [[3, 3, 3]] * 4, "rows of each part when all ask for 0")
    equal(got[3], [0] * 12, "entries of each row when all ask for 0")
