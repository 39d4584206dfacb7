"""Chapter 06: what an answer has said gets less likely, in its own row and from the next token on.

All passes are prepared before the first of them samples, as if the CPU were far ahead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from pairs import checkpoint, close, draw, equal, public_bug, truth

VOCAB = 12
Ask = dict[str, Any]


def request(row: int, ask: Ask, prompt: list[int] | None = None, room: int = 40) -> Any:
    """A request on a row of the tables, with a prompt and room for an answer."""
    from minisgl.core import Req, SamplingParams

    ids = torch.tensor(prompt or [5, 5, 6], dtype=torch.int32)
    return Req(ids, row, 0, room, row, SamplingParams(**ask), None)


def sampler(vocab: int = VOCAB, rows: int = 16) -> Any:
    from minisgl.engine.sample import Sampler

    return Sampler(torch.device("cpu"), vocab, rows)


def prepared(made: Any, reqs: list[Any]) -> Any:
    """What a sampler prepares for the next pass of these requests, which then are one token on."""
    from minisgl.core import Batch

    args = made.prepare(Batch(reqs, "decode"))
    for req in reqs:
        req.complete_one()
    return args


def said(made: Any, passes: list[list[Any]], scores: Any) -> list[list[int]]:
    """The tokens of each pass; scores[i]: the logits of pass i, (requests, vocab)."""
    args = [prepared(made, reqs) for reqs in passes]
    return [
        made.sample(torch.tensor(np.array(logits)), arg).tolist()
        for logits, arg in zip(scores, args, strict=True)
    ]


def constant(count: int, passes: int, **others: float) -> list[np.ndarray]:
    """Logits of `count` rows for each pass: id 5 has 1.0, id 6 has 0.9, the others are far off."""
    logits = np.full((count, VOCAB), -50.0, dtype=np.float32)
    logits[:, 5], logits[:, 6] = 1.0, 0.9
    return [logits] * passes


def alone(ask: Ask, passes: int, **more: Any) -> list[int]:
    """The answer of a request alone, whose logits are always the same."""
    req = request(3, ask, **more)
    return [tokens[0] for tokens in said(sampler(), [[req]] * passes, constant(1, passes))]


def penalized(logits: np.ndarray, answer: list[int], ask: Ask) -> np.ndarray:
    """Judge side: one row's logits without what its answer so far takes off them."""
    counts = np.bincount(answer, minlength=len(logits)).astype(np.float32)
    presence, frequency = (
        np.float32(ask.get(f"{n}_penalty", 0)) for n in ("presence", "frequency")
    )
    return logits - (presence * (counts > 0) + frequency * counts)


def greedy_answers(scores: np.ndarray, asks: list[Ask]) -> list[list[int]]:
    """Judge side: scores (passes, requests, vocab) -> each request's tokens."""
    answers: list[list[int]] = [[] for _ in asks]
    for logits in scores:
        for row, answer, ask in zip(logits, answers, asks, strict=True):
            answer.append(int(penalized(row, answer, ask).argmax()))
    return answers


@public_bug("B33")
def probe_a_penalty_counts_from_the_very_next_token_on_also_in_a_greedy_row(seed):
    asks = ({"frequency_penalty": 2}, {"frequency_penalty": 2, "temperature": 5.0, "top_k": 1})
    return [alone({"temperature": 0, **ask}, 4) for ask in asks]


def judge_a_penalty_counts_from_the_very_next_token_on_also_in_a_greedy_row(seed, got):
    equal(got, [[5, 6, 5, 6]] * 2, "tokens at temperature 0, and with a single candidate")


def probe_presence_is_taken_once_and_frequency_each_time(seed):
    asks = ({"presence_penalty": 2.0}, {"frequency_penalty": 0.06}, {"presence_penalty": -1.0},
            {"presence_penalty": 2.0, "frequency_penalty": -0.5}, {})  # fmt: skip
    return [alone(ask, 6) for ask in asks]


def judge_presence_is_taken_once_and_frequency_each_time(seed, got):
    want = [[5, 6, 5, 5, 5, 5], [5, 5, 6, 5, 6, 5], [5] * 6, [5, 6, 5, 5, 5, 5], [5] * 6]
    equal(got, want, "tokens by presence 2; frequency 0.06; presence -1; 2 and -0.5; none")


ASKS: list[Ask] = [
    {"presence_penalty": 1.3},
    {},
    {"frequency_penalty": 0.4},
    {"presence_penalty": 0.7, "frequency_penalty": 0.3},
    {"presence_penalty": -0.8},
    {"frequency_penalty": -0.25},
]


def probe_greedy_rows_of_a_mixed_batch_are_what_the_formula_gives(seed):
    reqs = [request(row, ask) for row, ask in zip((7, 2, 9, 0, 15, 4), ASKS, strict=True)]
    scores = draw(seed, 20, len(ASKS), VOCAB)
    return said(sampler(), [reqs] * 20, scores)


def judge_greedy_rows_of_a_mixed_batch_are_what_the_formula_gives(seed, got):
    scores = draw(seed, 20, len(ASKS), VOCAB)
    equal(np.array(got).T, greedy_answers(scores, ASKS), "each request's tokens")


N = 1000
DRAWN: list[Ask] = [
    {"temperature": 1.0, "presence_penalty": 1.0, "frequency_penalty": 0.5},
    {"temperature": 0.5, "frequency_penalty": 0.6},
    {"temperature": 2.0, "presence_penalty": 2.0, "top_k": 3},
    {"temperature": 1.0},
]
FIRST = [1, 1, 2]


def probe_drawn_rows_lose_their_penalties_before_temperature_and_filters(seed):
    made, count = sampler(8, N * len(DRAWN)), N * len(DRAWN)
    reqs = [request(row, DRAWN[row % len(DRAWN)]) for row in range(count)]
    for token in FIRST:
        sure = torch.zeros(count, 8)
        sure[:, token] = 500.0
        made.sample(sure, prepared(made, reqs))
    args = prepared(made, reqs)
    args.uniforms = ((torch.arange(N, dtype=torch.float64) + 0.5) / N).repeat_interleave(len(DRAWN))
    tokens = made.sample(torch.from_numpy(draw(seed, 8)).repeat(count, 1), args)
    return [tokens[i :: len(DRAWN)].bincount(minlength=8).tolist() for i in range(len(DRAWN))]


def judge_drawn_rows_lose_their_penalties_before_temperature_and_filters(seed, got):
    for ask, found in zip(DRAWN, got, strict=True):
        scores = penalized(draw(seed, 8), FIRST, ask).astype(np.float64) / ask["temperature"]
        scores[np.argsort(-scores)[ask.get("top_k", 8) :]] = -math.inf
        shares = np.exp(scores - scores.max())
        close(found, N * shares / shares.sum(), 1.001, f"of {N} draws with {ask}")


def probe_rows_without_penalties_are_the_same_beside_rows_with_them(seed):
    asks = [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 0.8, "top_p": 0.7, "seed": 4}]
    scores, loud = draw(seed, 12, 5, VOCAB), {"presence_penalty": 2.0, "frequency_penalty": 2.0}
    found = []
    for others in ([], [loud, {**loud, "temperature": 1.0}]):
        reqs = [request(row, ask) for row, ask in enumerate([*asks, *others])]
        tokens = said(sampler(), [reqs] * 12, scores[:, : len(reqs)])
        found.append([row[:3] for row in tokens])
    return found


def judge_rows_without_penalties_are_the_same_beside_rows_with_them(seed, got):
    equal(got[1], got[0], "tokens beside two rows with penalties, and by themselves")


PENALTY = {"frequency_penalty": 2.0}


@public_bug("B34")
def probe_a_prompt_is_never_counted(seed):
    prompts = [[5], [6] * 20, [5] * 9 + [6], [0]]
    chunk = request(3, PENALTY, [5, 5, 5, 5])
    chunk.cached_len = 3  # the rest of the prompt came from the cache
    beside = [request(row, PENALTY, ids) for row, ids in enumerate(prompts)]
    return [
        [alone(PENALTY, 4, prompt=ids) for ids in prompts],
        said(sampler(), [beside] * 4, constant(4, 4)),
        said(sampler(), [[chunk]] * 4, constant(1, 4)),
    ]


def judge_a_prompt_is_never_counted(seed, got):
    equal(got[0], [[5, 6, 5, 6]] * 4, "tokens after each of four prompts")
    equal(got[1], [[t] * 4 for t in (5, 6, 5, 6)], "tokens of all four in one batch, pass by pass")
    equal(got[2], [[5], [6], [5], [6]], "tokens of a prompt that was cached in part")


def probe_a_chunk_of_a_prompt_is_neither_read_nor_counted(seed):
    from minisgl.core import Batch, Req

    class Chunk(Req):
        can_decode = False  # type: ignore[assignment]

    made, other = sampler(), request(1, PENALTY)
    plain = request(3, PENALTY, [5, 5])
    chunk = Chunk(plain.input_ids, 3, 0, 40, 3, plain.sampling_params, None)
    only = made.prepare(Batch([chunk], "prefill"))
    mixed = [prepared(made, [chunk, other]) for _ in range(2)]
    whole = [prepared(made, [other, plain]) for _ in range(3)]
    tokens = [made.sample(torch.from_numpy(constant(2, 1)[0]), a).tolist() for a in mixed + whole]
    places = [arg.penalties.places.tolist() for arg in mixed]
    return [only.penalties is None, places, [arg.penalties.rows.tolist() for arg in mixed], tokens]


def judge_a_chunk_of_a_prompt_is_neither_read_nor_counted(seed, got):
    equal(got[0], True, "whether a batch of chunks alone has no penalties")
    equal(got[1:3], [[[1], [1]]] * 2, "places and rows with a penalty in a batch with a chunk")
    equal(got[3], [[5, 5], [5, 6], [5, 5], [6, 6], [5, 5]], "tokens, pass by pass")


def probe_a_row_that_another_request_had_begins_anew(seed):
    first, silent, second = request(3, PENALTY), request(3, {}), request(3, PENALTY, [6, 7, 8, 9])
    other, half = request(8, PENALTY), {"presence_penalty": 0.5}
    third = request(3, half)
    passes = [[first, other]] * 3 + [[other, second]] * 2 + [[silent, other]] + [[third]] * 3
    scores = [constant(len(reqs), 1)[0] for reqs in passes]
    return said(sampler(), passes, scores)


def judge_a_row_that_another_request_had_begins_anew(seed, got):
    want = [[5, 5], [6, 6], [5, 5], [6, 5], [5, 6], [5, 6], [5], [6], [5]]
    equal(got, want, "tokens of the passes; four requests follow each other on row 3")


def probe_the_row_of_the_tables_counts_and_not_the_place_in_the_batch(seed):
    reqs = [request(row, ask) for row, ask in zip((7, 2, 9, 0, 15, 4), ASKS, strict=True)]
    orders = [np.random.default_rng(seed + i).permutation(6).tolist() for i in range(16)]
    scores = draw(seed, 16, 6, VOCAB)
    passes = [[reqs[i] for i in order] for order in orders]
    tokens = said(sampler(), passes, [scores[i, order] for i, order in enumerate(orders)])
    return [[row[order.index(i)] for row, order in zip(tokens, orders, strict=True)]
            for i in range(6)]  # fmt: skip


def judge_the_row_of_the_tables_counts_and_not_the_place_in_the_batch(seed, got):
    equal(got, greedy_answers(draw(seed, 16, 6, VOCAB), ASKS), "each request's tokens")


def probe_rows_that_pad_a_batch_are_not_counted(seed):
    from minisgl.core import Batch

    made, req = sampler(), request(3, PENALTY)
    dummy, tokens = request(3, PENALTY), []
    for logits in constant(1, 4):
        batch = Batch([req], "decode")
        batch.padded_reqs = [req, dummy, dummy]
        args = made.prepare(batch)
        tokens += made.sample(torch.from_numpy(logits), args).tolist()
        req.complete_one()
    return tokens


def judge_rows_that_pad_a_batch_are_not_counted(seed, got):
    equal(got, [5, 6, 5, 6], "tokens of a request in batches with two dummies on its own row")


def probe_bfloat16_logits_lose_their_penalties_in_float32(seed):
    made, req, tokens = sampler(2), request(3, {"frequency_penalty": 0.2}), []
    for _ in range(6):
        logits = torch.tensor([[100.0, 99.5]], dtype=torch.bfloat16)
        tokens += made.sample(logits, prepared(made, [req])).tolist()
    return tokens


def judge_bfloat16_logits_lose_their_penalties_in_float32(seed, got):
    # 100, 99.8, 99.6, then 99.4 against 99.5; bfloat16 has no number between 99.5 and 100.
    equal(got, [0, 0, 0, 1, 0, 1], "tokens of logits 100 and 99.5 with a penalty of 0.2")


def probe_a_token_that_cant_be_drawn_stays_so(seed):
    made, found = sampler(6), []
    logits = torch.tensor([[-math.inf] * 4 + [-7.0, -math.inf]] * 3)
    both = {"presence_penalty": 2.0, "frequency_penalty": 2.0}
    asks = ({**both}, {**both, "temperature": 1.0}, {"presence_penalty": -2.0, "temperature": 3.0})
    reqs = [request(row, ask) for row, ask in enumerate(asks)]
    for _ in range(8):
        found.append(made.sample(logits, prepared(made, reqs)).tolist())
    return found


def judge_a_token_that_cant_be_drawn_stays_so(seed, got):
    equal(got, [[4, 4, 4]] * 8, "tokens where only id 4 is possible, however often it was said")


def probe_nothing_is_prepared_and_no_logits_are_changed_for_nothing(seed):
    made, rows = sampler(), [{}, {"temperature": 1.0}, {"presence_penalty": 0.0}]
    none = prepared(made, [request(row, ask) for row, ask in enumerate(rows)])
    logits = torch.from_numpy(constant(1, 1)[0])
    before, req = logits.clone(), request(3, {**PENALTY, "presence_penalty": 1.0})
    for _ in range(3):
        made.sample(logits, prepared(made, [req]))
    return [none.penalties is None, torch.equal(logits, before)]


def judge_nothing_is_prepared_and_no_logits_are_changed_for_nothing(seed, got):
    equal(got, [True, True], "no penalties prepared where nobody asks; the caller's logits kept")


def engine_passes(prompts: list[list[int]], asks: list[Ask], passes: int) -> list[Any]:
    """The logits and the tokens of each pass of a real engine."""
    from minisgl.core import Batch
    from minisgl.distributed.info import DistributedInfo
    from minisgl.engine import Engine, EngineConfig

    made = Engine(EngineConfig(checkpoint("tiny-qwen3"), DistributedInfo(0, 1), torch.float32,
                               max_running_req=4, num_page_override=256))  # fmt: skip
    table, noted = made.ctx.page_table, []
    table[:, :64] = torch.arange(256, dtype=torch.int32).view(4, 64)
    reqs = [request(3 - i, ask, prompts[i], passes) for i, ask in enumerate(asks)]
    plain = made.sampler.sample
    made.sampler.sample = lambda logits, args: noted.append(logits.tolist()) or plain(logits, args)
    for step in range(passes):
        batch = Batch(reqs, "decode" if step else "prefill")
        spans = [torch.arange(req.cached_len, req.device_len) for req in reqs]
        batch.positions = torch.cat(spans).to(table.device)
        ids = [req.input_ids[span] for req, span in zip(reqs, spans, strict=True)]
        batch.input_ids = torch.cat(ids).to(table.device)
        rows = [table[req.table_idx, span] for req, span in zip(reqs, spans, strict=True)]
        batch.out_loc = torch.cat(rows)
        made.ctx.attn_backend.prepare_metadata(batch)
        output = made.forward_batch(batch, made.sampler.prepare(batch))
        output.copy_done_event.synchronize()
        for req, token in zip(reqs, output.next_tokens_cpu.tolist(), strict=True):
            req.append_host(token)
    answers = [req.input_ids[-passes:].tolist() for req in reqs]
    return [noted, answers]


NEIGHBORS: list[Ask] = [{"frequency_penalty": 0.5}, {"presence_penalty": 1.5}, {}]


@public_bug("B34")
def probe_an_engine_s_answers_are_the_same_beside_a_long_neighbor(seed):
    prompts = [[3, 1, 4], list(range(20)), [9]]
    logits, answers = engine_passes(prompts, NEIGHBORS, 8)
    return [logits, answers, engine_passes(prompts[:1], NEIGHBORS[:1], 8)[1]]


def judge_an_engine_s_answers_are_the_same_beside_a_long_neighbor(seed, got):
    logits, answers, by_itself = got
    want = greedy_answers(np.array(logits, dtype=np.float32), NEIGHBORS)
    equal(answers, want, "tokens, and what the formula makes of the logits")
    equal(by_itself, answers[:1], "tokens of the first request alone, and beside 20 tokens")
    truth(len(set(answers[0])) > 1, "the tokens differ", answers)
