"""The same requests over every way to serve them: each gets what it would get alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fakes.stub_engine import Done, answer, stub_scheduler, user

ENDS = (5, 11)
POOLS = {"tight": 80, "wide": 512}
"""Tokens of the pool; the longest request takes 76 of them."""

Asked = list[tuple[int, list[int], int, bool]]
"""For each request: the step at which it comes in, prompt, max_tokens, ignore_eos."""


def mixed(rng: np.random.Generator) -> Asked:
    """Requests of all lengths that come in one after another; two thirds share a beginning."""
    shared = rng.integers(0, 97, 33).tolist()
    asked, step = [], 0
    for i in range(16):
        start = shared[: rng.integers(0, 34)] if i % 3 else []
        prompt = start + rng.integers(0, 97, rng.integers(1, 28)).tolist()
        asked.append((step, prompt, int(rng.integers(1, 17)), bool(rng.random() < 0.3)))
        step += int(rng.integers(0, 4))
    return asked


def together(rng: np.random.Generator) -> Asked:
    """Equal prompts at the same time, so that they race for the cache."""
    prompt = rng.integers(0, 97, 20).tolist()
    return [(0, prompt[: 20 - i % 3], 3 + i, i % 2 == 0) for i in range(8)]


def continued(rng: np.random.Generator) -> Asked:
    """Each prompt is the last one and its answer: a conversation."""
    asked: Asked = []
    prompt = rng.integers(0, 97, 5).tolist()
    for turn in range(6):
        asked.append((12 * turn, prompt, 6, True))
        prompt = prompt + answer(prompt, 6) + [int(rng.integers(0, 97))]
    return asked


def alone(request: tuple[int, list[int], int, bool]) -> list[list[Any]]:
    """The replies that a request gets by itself."""
    _, prompt, max_tokens, ignore_eos = request
    tokens = answer(prompt, max_tokens, eos=() if ignore_eos else ENDS)
    return [[token, i == len(tokens) - 1] for i, token in enumerate(tokens)]


def served(asked: Asked, **settings: Any) -> dict[int, list[list[Any]]]:
    """Serve the requests, look at everything after each step, return the replies."""
    scheduler = stub_scheduler(eos=ENDS, max_seq_len_override=76, **settings)
    for uid, request in enumerate(asked):
        scheduler.engine.expect(uid, request[1] + [token for token, _ in alone(request)])
    waiting = list(enumerate(asked))
    for step in itertools.count():
        while waiting and waiting[0][1][0] <= step:
            uid, (_, prompt, max_tokens, ignore_eos) = waiting.pop(0)
            scheduler.send(user(uid, prompt, max_tokens, ignore_eos=ignore_eos))
        try:
            scheduler.step()
        except Done:
            if not waiting:
                break
        scheduler.check()
    assert scheduler.engine.wrong == []
    assert scheduler.table_manager.available_size == scheduler.config.max_running_req
    return scheduler.replies


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("cache_type", ["naive", "radix"])
@pytest.mark.parametrize("kind", [mixed, together, continued])
def test_replies_are_those_of_each_request_alone(
    kind: Any, cache_type: str, page_size: int, pool: str
) -> None:
    asked = kind(np.random.default_rng(page_size))
    want = {uid: alone(request) for uid, request in enumerate(asked)}
    for overlap, budget, rows in itertools.product((True, False), (3, 16, 1000), (2, 8)):
        got = served(
            asked,
            overlap=overlap,
            cache_type=cache_type,
            page_size=page_size,
            num_page_override=POOLS[pool] // page_size,
            max_extend_tokens=budget,
            max_running_req=rows,
        )
        assert got == want, f"overlap {overlap}, budget {budget}, rows {rows}"
