"""Chapter 06: a random draw depends on the request and its position, and on nothing else.

All logits are equal here, so the token tells which number was drawn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pairs import equal, truth

VOCAB = 4096
FEW = 60  # draws among 4096 tokens: all but a few are distinct


class Request(NamedTuple):
    """length: tokens so far, which is the position of the next one."""

    seed: int | None = None
    uid: int = 0
    length: int = 5
    temperature: float = 1.0


def drawn(requests: list[Request]) -> list[int]:
    """The next token of each request of one batch."""
    from minisgl.core import Batch, Req
    from minisgl.engine.sample import Sampler

    reqs = [
        Req(torch.zeros(r.length, dtype=torch.int32), 0, 0, 1, r.uid, params(r), None)
        for r in requests
    ]
    sampler = Sampler(torch.device("cpu"), VOCAB)
    args = sampler.prepare(Batch(reqs, "prefill"))
    return sampler.sample(torch.zeros(len(reqs), VOCAB), args).tolist()


def params(request: Request) -> Any:
    from minisgl.core import SamplingParams

    return SamplingParams(temperature=request.temperature, seed=request.seed)


def probe_a_seeded_request_repeats_in_any_batch_and_place(seed):
    same = Request(seed=5)
    others = [Request(seed=6), Request(uid=3), Request(temperature=0.0), Request(length=9)]
    torch.manual_seed(seed)
    return [
        drawn([same])[0],
        drawn([same])[0],
        drawn([same._replace(uid=77)])[0],
        drawn([same, *others])[0],
        drawn([*others, same])[-1],
        drawn([others[0], same, others[1]])[1],
        drawn([same._replace(temperature=0.5)])[0],
    ]


def judge_a_seeded_request_repeats_in_any_batch_and_place(seed, got):
    equal(got, [got[0]] * 7, "token of the request with seed 5, in seven batches")


def probe_seeds_positions_and_uids_give_different_draws(seed):
    numbers = range(FEW)
    return {
        "seeds": drawn([Request(seed=n) for n in numbers]),
        "large seeds": drawn([Request(seed=2**40 + n) for n in numbers]),
        "negative seeds": drawn([Request(seed=-n - 1) for n in numbers]),
        "positions": drawn([Request(seed=1, length=n + 1) for n in numbers]),
        "uids": drawn([Request(uid=n) for n in numbers]),
        "positions without a seed": drawn([Request(uid=1, length=n + 1) for n in numbers]),
    }


def judge_seeds_positions_and_uids_give_different_draws(seed, got):
    for what, tokens in got.items():
        truth(len(set(tokens)) >= FEW - 4, f"{FEW} {what} give at least {FEW - 4} tokens", tokens)
    lists = list(got.values())
    for i, tokens in enumerate(lists):
        for others in lists[:i]:
            same = sum(a == b for a, b in zip(tokens, others, strict=True))
            truth(same <= 3, "two ways to count give hardly a common draw", same)


def probe_an_unseeded_request_follows_its_uid_and_not_a_seed_of_that_number(seed):
    together = drawn([Request(uid=7), Request(seed=7, uid=7), Request(uid=8)])
    torch.manual_seed(seed)
    return [together, drawn([Request(uid=7)])[0], drawn([Request(seed=7, uid=8)])[0]]


def judge_an_unseeded_request_follows_its_uid_and_not_a_seed_of_that_number(seed, got):
    (by_uid, by_seed, other), again, same_seed = got
    equal(again, by_uid, "draw of uid 7 in another batch")
    equal(same_seed, by_seed, "draw of seed 7 with another uid")
    truth(len({by_uid, by_seed, other}) == 3, "uid 7, seed 7 and uid 8 draw apart", got[0])


def probe_draws_are_spread_evenly(seed):
    many = range(1600)
    return {
        "seeds": drawn([Request(seed=n) for n in many]),
        "positions": drawn([Request(seed=3, length=n + 1) for n in many]),
        "uids": drawn([Request(uid=n) for n in many]),
    }


def judge_draws_are_spread_evenly(seed, got):
    for what, tokens in got.items():
        cells = [0] * 16
        for token in tokens:
            cells[token * 16 // VOCAB] += 1
        off = sum((count - 100) ** 2 / 100 for count in cells)
        truth(off < 45, f"chi-square of 1600 {what} in 16 cells is {off:.1f}, below 45", cells)
