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
