"""A server with two tokenizer processes, beside another on the same machine, answers the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from reference import CHAT, PROMPTS, Reference
from running import Running, running_server

from pairs import public_bug

MODEL = "tiny-qwen3"


@pytest.fixture(scope="module")
def two(server: Running) -> Iterator[Running]:
    """The server with two tokenizers; the one with none runs beside it."""
    with running_server("--num-tokenizer", "2", "--num-pages", "2048") as running:
        yield running


@pytest.fixture(scope="module")
def asks_two(two: Running) -> Iterator[OpenAI]:
    with two.client() as client:
        yield client


def running_requests(server: Running) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(float(x.split()[1]) for x in lines if x.startswith("minisgl_running_requests "))


def test_it_has_two_processes_more(server: Running, two: Running) -> None:
    assert len(two.workers()) == len(server.workers()) + 2


@public_bug("B102")
def test_two_servers_answer_side_by_side(client: OpenAI, asks_two: OpenAI, tiny: Reference) -> None:
    want = tiny.answers(PROMPTS, 12)
    for each in (client, asks_two, client):
        given: Any = {"model": MODEL, "prompt": PROMPTS, "max_tokens": 12, "temperature": 0}
        reply = each.completions.create(**given)
        assert [choice.text for choice in reply.choices] == [answer.text for answer in want]


def test_many_requests_at_once_over_both(two: Running, tiny: Reference) -> None:
    chats: Any = [[*CHAT, {"role": "user", "content": "x" * i}] for i in range(24)]

    async def all_at_once() -> list[str]:
        async with AsyncOpenAI(base_url=f"{two.url}/v1", api_key="none") as client:
            asked = [
                client.chat.completions.create(
                    model=MODEL, messages=chat, max_tokens=8, temperature=0
                )
                for chat in chats
            ]
            return [str(x.choices[0].message.content) for x in await asyncio.gather(*asked)]

    want = tiny.answers([tiny.chat_ids(chat) for chat in chats], 8)
    assert asyncio.run(all_at_once()) == [each.text for each in want]


def test_it_refuses_as_before(asks_two: OpenAI) -> None:
    for _ in range(3):  # whichever tokenizer takes it
        with pytest.raises(openai.BadRequestError, match="1024"):
            asks_two.completions.create(model=MODEL, prompt="a b " * 2000)


@public_bug("B71")
@pytest.mark.parametrize("attempt", range(4))
def test_a_client_that_leaves_frees_its_request(
    two: Running, asks_two: OpenAI, attempt: int
) -> None:
    """An abort may go by the other tokenizer than its request did."""
    stream = asks_two.completions.create(
        model=MODEL,
        prompt=[5, attempt],
        max_tokens=1000,
        n=2,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    for _, _event in zip(range(6), stream, strict=False):
        pass
    stream.close()
    began = time.monotonic()
    while running_requests(two):
        assert time.monotonic() - began < 2, "the request goes on without its client"
        time.sleep(0.05)
    reply = asks_two.completions.create(model=MODEL, prompt=[5], max_tokens=3, temperature=0)
    assert reply.usage and reply.usage.completion_tokens == 3


@public_bug("B71")
def test_an_abort_that_is_faster_than_its_request_counts(two: Running) -> None:
    """The request waits for a tokenizer that is busy with a long text; its abort does not."""

    async def leave() -> None:
        async with AsyncOpenAI(base_url=f"{two.url}/v1", api_key="none", max_retries=0) as client:
            given: Any = {"model": MODEL, "prompt": [5], "max_tokens": 1000}
            given |= {"extra_body": {"ignore_eos": True}}
            long = client.completions.create(**given | {"prompt": "word " * 500_000})
            refused = asyncio.create_task(long)
            await asyncio.sleep(0.1)
            await client.completions.create(**given | {"max_tokens": 1})  # by the other tokenizer
            leaving = asyncio.create_task(client.completions.create(**given))
            await asyncio.sleep(0.05)
            assert not refused.done(), "the long text was no hindrance"
            leaving.cancel()
            (error, _) = await asyncio.gather(refused, leaving, return_exceptions=True)
            assert isinstance(error, openai.BadRequestError)

    asyncio.run(leave())
    seen = [running_requests(two)]
    for _ in range(10):
        time.sleep(0.1)
        seen.append(running_requests(two))
    assert seen[-3:] == [0, 0, 0], "the request goes on without its client"
