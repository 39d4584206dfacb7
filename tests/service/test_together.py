"""Many requests at once: each gets what it gets alone, and a bad one harms none."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from reference import Reference
from running import Running

MODEL = "tiny-qwen3"


def requests(count: int) -> list[tuple[list[int], int, bool]]:
    """Return prompts of ids, their limits, and whether each is streamed; some share a prefix."""
    rng = random.Random(0)
    shared = [rng.randrange(1000) for _ in range(40)]
    made = []
    for i in range(count):
        own = [rng.randrange(1000) for _ in range(rng.choice((1, 3, 17, 60, 150)))]
        prefix = shared[: rng.randrange(40)] if i % 3 == 0 else []
        made.append((prefix + own, rng.choice((1, 2, 9, 20, 40)), i % 2 == 0))
    return made


async def ask(client: AsyncOpenAI, prompt: Any, tokens: int, stream: bool) -> tuple[str, int]:
    """Return an answer's text and how many tokens it counts."""
    given: Any = {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    if not stream:
        reply = await client.completions.create(**given)
        return reply.choices[0].text, reply.usage.completion_tokens
    given |= {"stream": True, "stream_options": {"include_usage": True}}
    events = [event async for event in await client.completions.create(**given)]
    text = "".join(choice.text for event in events for choice in event.choices)
    return text, events[-1].usage.completion_tokens


async def all_at_once(server: Running, bad: int = 0) -> tuple[list[Any], list[Any]]:
    """Return the answers to 64 requests, and what `bad` wrong ones among them get."""
    async with AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120
    ) as client:
        good = [ask(client, *each) for each in requests(64)]
        wrong = [
            ask(client, *[([], 5), ([5], 0), ([2000], 5), ("", 5)][i % 4], i % 2 == 0)
            for i in range(bad)
        ]
        mixed = [each for pair in zip(good, wrong, strict=False) for each in pair]
        mixed += good[len(wrong) :]
        done = await asyncio.gather(*mixed, return_exceptions=True)
    return done[: 2 * bad : 2] + done[2 * bad :], done[1 : 2 * bad : 2]


@pytest.mark.parametrize("bad", [0, 32])
def test_64_requests_at_once_get_what_each_gets_alone(
    server: Running, tiny: Reference, bad: int
) -> None:
    got, refused = asyncio.run(all_at_once(server, bad))
    want = [tiny.answer(prompt, tokens) for prompt, tokens, _ in requests(64)]
    assert got == [(each.text, len(each.ids)) for each in want]
    assert len(refused) == bad
    assert all(isinstance(each, openai.BadRequestError) for each in refused)


def mixed(count: int) -> list[dict[str, Any]]:
    """Return requests that differ in everything that chooses tokens."""
    rng = random.Random(1)
    made = []
    for i in range(count):
        each: dict[str, Any] = {"temperature": rng.choice((0.0, 0.0, 0.7, 1.3)), "seed": i}
        each |= rng.choice(({}, {"top_p": 0.7}, {"top_k": 9}, {"top_k": 30, "top_p": 0.9}))
        each |= rng.choice(({}, {}, {"presence_penalty": 1.5}, {"frequency_penalty": 1.0}))
        each |= rng.choice(({}, {"top_logprobs": 0}, {"top_logprobs": 5}))
        made.append(each | {"prompt": [rng.randrange(1000) for _ in range(rng.randrange(1, 30))]})
    return made


def test_what_is_asked_of_one_request_is_not_done_to_another(
    server: Running, tiny: Reference
) -> None:
    async def ask_one(client: AsyncOpenAI, given: dict[str, Any]) -> tuple[str, list[int] | None]:
        """Return the text, and how many tokens each place names beside its own."""
        given = given | {"extra_body": {"top_k": given.get("top_k", -1), "ignore_eos": True}}
        given["logprobs"] = given.pop("top_logprobs", None)
        given.pop("top_k", None)
        reply = await client.completions.create(model=MODEL, max_tokens=24, **given)
        found = reply.choices[0].logprobs
        return reply.choices[0].text, found and [len(best) for best in found.top_logprobs]

    async def ask_all() -> list[tuple[str, list[int] | None]]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            return await asyncio.gather(*(ask_one(client, each) for each in mixed(48)))

    for given, (text, named) in zip(mixed(48), asyncio.run(ask_all()), strict=True):
        want = tiny.answer(given.pop("prompt"), 24, ignore_eos=True, **given)
        assert text == want.text
        top = given.get("top_logprobs")
        assert (named is None) == (top is None)
        assert all(max(top, 1) <= size <= top + 1 for size in named or ())
