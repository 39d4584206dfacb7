"""Chapter 11: penalties are exact although the next batch is ready before a token is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch

from pairs import checkpoint, equal, public_bug, truth


def llm(**settings: Any) -> Any:
    """An LLM in float32 with room for 512 tokens."""
    from minisgl.llm import LLM

    fixed = {"dtype": torch.float32, "num_page_override": 512, "max_running_req": 8}
    return LLM(checkpoint("tiny-qwen3"), **{**fixed, **settings})


def params(max_tokens: int, **more: Any) -> Any:
    from minisgl.core import SamplingParams

    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, **more)


def constant(model: Any) -> Any:
    """Make a model whose logits are always 1.0 for id 5, 0.9 for id 6, and far less for others."""
    engine, vocab = model.engine, model.config.model_config.vocab_size

    def forward() -> torch.Tensor:
        logits = torch.full((engine.ctx.batch.padded_size, vocab), -50.0, device=engine.device)
        logits[:, 5], logits[:, 6] = 1.0, 0.9
        return logits

    engine.model.forward = forward
    return model


def tokens(model: Any, prompts: list[list[int]], asked: Any) -> list[list[int]]:
    return [x["token_ids"] for x in model.generate(prompts, asked, use_tqdm=False)]


def both_ways(model: Any, prompts: list[list[int]], asked: Any) -> list[list[list[int]]]:
    """The tokens with overlap, and without."""
    from minisgl.env import ENV

    with mock.patch.object(ENV.DISABLE_OVERLAP_SCHEDULING, "value", True):
        off = tokens(model, prompts, asked)
    return [tokens(model, prompts, asked), off]


@public_bug("B33")
def probe_a_greedy_answer_alternates_with_overlap_and_without(seed):
    asked = params(4, frequency_penalty=2, temperature=0)
    return both_ways(constant(llm()), [[1, 2, 3]], asked)


def judge_a_greedy_answer_alternates_with_overlap_and_without(seed, got):
    equal(got, [[[5, 6, 5, 6]]] * 2, "tokens with overlap, and without")


@public_bug("B34")
def probe_a_neighbor_with_a_longer_prompt_changes_nothing(seed):
    asked, long = [params(6, frequency_penalty=2.0), params(9, presence_penalty=1.0)], [5, 6] * 10
    found = []
    for ids in ([7], [5, 5, 5], [6, 5]):
        alone = both_ways(constant(llm()), [ids], asked[0])
        beside = both_ways(constant(llm()), [ids, long], asked)
        found.append([[way[0] for way in alone], [way[0] for way in beside]])
    return found


def judge_a_neighbor_with_a_longer_prompt_changes_nothing(seed, got):
    equal(got, [[[[5, 6, 5, 6, 5, 6]] * 2] * 2] * 3, "tokens alone and batched, both ways")


def prompts(seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1000, 2 + 3 * i).tolist() for i in range(7)]


def mixed() -> list[Any]:
    return [
        params(12, presence_penalty=-2.0, frequency_penalty=-2.0),
        params(7),
        params(12, presence_penalty=2.0, temperature=0.9, seed=5),
        params(5, frequency_penalty=2.0),
        params(11, presence_penalty=-2.0, frequency_penalty=-1.5),
        params(8, temperature=1.0, seed=6),
        params(10, frequency_penalty=2.0, temperature=0.3, seed=7),
    ]


def probe_real_answers_are_the_same_alone_in_chunks_and_on_used_rows(seed):
    asked, model = prompts(seed), llm()
    alone = [tokens(model, [p], s)[0] for p, s in zip(asked, mixed(), strict=True)]
    found = []
    for way in ({}, {"max_running_req": 2}, {"max_extend_tokens": 5}, {"cache_type": "naive"}):
        model = llm(**way)
        found += both_ways(model, asked, mixed())
        found.append(tokens(model, asked, mixed()))  # the prompts are cached now
    without = [replace(s, presence_penalty=0.0, frequency_penalty=0.0) for s in mixed()]
    return [alone, found, tokens(model, asked, without)]


def judge_real_answers_are_the_same_alone_in_chunks_and_on_used_rows(seed, got):
    alone, found, plain = got
    equal(found, [alone] * 12, "tokens, each way of serving, and each request alone")
    equal([alone[1], alone[5]], [plain[1], plain[5]], "tokens of the requests without penalties")
    truth(alone[0] != plain[0], "penalties below 0 change an answer", plain[0])
    fewer = [len(set(tokens)) for tokens in (alone[0], plain[0])]
    truth(fewer[0] < fewer[1], "and make it say fewer different tokens", fewer)
