"""Stop strings and log-probabilities over HTTP."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
import torch
from openai import AsyncOpenAI, OpenAI
from reference import PROMPTS, Reference
from running import Running

from pairs import public_bug

MODEL = "tiny-qwen3"
PROMPT = PROMPTS[0]
TOKENS = 24


def complete(client: OpenAI, **more: Any) -> Any:
    given = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0} | more
    return client.completions.create(model=MODEL, **given)


def streamed(client: OpenAI, **more: Any) -> tuple[list[str], str, int]:
    """Return the pieces of a streamed text, why it ended, and how many tokens it has."""
    events = list(complete(client, stream=True, stream_options={"include_usage": True}, **more))
    choices = [choice for event in events for choice in event.choices]
    tokens = events[-1].usage.completion_tokens
    return [choice.text for choice in choices], choices[-1].finish_reason, tokens


def stops_of(tiny: Reference) -> list[str]:
    """Return stop strings of the plain answer: a letter, a part of a token, over token borders."""
    text = tiny.answer(PROMPT, TOKENS).text
    ids = tiny.answer(PROMPT, TOKENS).ids
    border = len(tiny.tokenizer.decode(ids[: TOKENS // 2]))
    return [text[8], text[border - 2 : border + 2], text[6:30], text[-1], text[:1]]


@public_bug("B81", "B92")
@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("as_list", [False, True])
def test_a_stop_string_ends_an_answer_before_it(
    client: OpenAI, tiny: Reference, which: int, as_list: bool
) -> None:
    text, stop = tiny.answer(PROMPT, TOKENS).text, stops_of(tiny)[which]
    given = ["never, never", stop] if as_list else stop
    want = text[: text.index(stop)]
    reply = complete(client, stop=given)
    assert reply.choices[0].text == want
    assert reply.choices[0].finish_reason == "stop"
    pieces, reason, tokens = streamed(client, stop=given)
    assert "".join(pieces) == want
    assert reason == "stop"
    assert tokens == reply.usage.completion_tokens <= TOKENS


@public_bug("B81")
def test_any_part_of_an_answer_can_be_its_stop_string(server: Running, tiny: Reference) -> None:
    """60 parts, from one letter to several tokens, each also with another that comes later."""
    text, rng = tiny.answer(PROMPT, TOKENS).text, random.Random(2)
    starts = [rng.randrange(len(text) - 1) for _ in range(60)]
    parts = [text[start : start + rng.randrange(1, 9)] for start in starts]

    async def shown(client: AsyncOpenAI, stop: str) -> tuple[str, str | None]:
        stream = await client.completions.create(
            model=MODEL,
            prompt=PROMPT,
            max_tokens=TOKENS,
            temperature=0,
            stop=[text[-2:], stop],
            stream=True,
        )
        choices = [event.choices[0] async for event in stream]
        return "".join(choice.text for choice in choices), choices[-1].finish_reason

    async def all_shown() -> list[tuple[str, str | None]]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            return await asyncio.gather(*(shown(client, part) for part in parts))

    ends = [min(text.index(part), text.index(text[-2:])) for part in parts]
    assert asyncio.run(all_shown()) == [(text[:end], "stop") for end in ends]


@public_bug("B81")
def test_the_earliest_of_several_stops_counts(client: OpenAI, tiny: Reference) -> None:
    text, stops = tiny.answer(PROMPT, TOKENS).text, stops_of(tiny)[1:3]
    want = text[: min(text.index(stop) for stop in stops)]
    assert complete(client, stop=stops).choices[0].text == want
    assert "".join(streamed(client, stop=stops)[0]) == want


@public_bug("B81")
def test_the_beginning_of_a_stop_string_is_shown_at_last(client: OpenAI, tiny: Reference) -> None:
    text = tiny.answer(PROMPT, TOKENS).text
    stops = [text[-3:] + "\x00", text[4:9] + "\x00"]
    assert complete(client, stop=stops).choices[0].text == text
    pieces, reason, tokens = streamed(client, stop=stops)
    assert ("".join(pieces), reason, tokens) == (text, "length", TOKENS)


def test_a_stop_string_counts_in_each_choice_alone(client: OpenAI, tiny: Reference) -> None:
    plain = tiny.seeded(PROMPT, TOKENS, (1, 2, 3), temperature=1.0)
    stop = plain[0].text[5:8]
    reply = complete(client, n=3, seed=1, temperature=1.0, stop=stop)
    want = [each.text.split(stop)[0] for each in plain]
    assert [choice.text for choice in reply.choices] == want


def test_a_chat_stops_too(client: OpenAI, tiny: Reference) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    text = tiny.answer(tiny.chat_ids(messages), TOKENS).text
    reply = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=TOKENS, temperature=0, stop=text[7:10]
    )
    assert reply.choices[0].message.content == text[: text.index(text[7:10])]
    assert reply.choices[0].finish_reason == "stop"


def test_a_chat_s_log_probabilities_are_those_of_transformers(
    client: OpenAI, tiny: Reference
) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    ids = tiny.chat_ids(messages)
    answer = tiny.answer(ids, TOKENS).ids
    want = tiny.logprobs(ids, answer)
    given: Any = {"messages": messages, "max_tokens": TOKENS, "temperature": 0}
    given |= {"model": MODEL, "logprobs": True, "top_logprobs": 4}
    whole = client.chat.completions.create(**given)
    events = list(client.chat.completions.create(**given, stream=True))
    content = whole.choices[0].logprobs.content
    check(content, answer, want, tiny, 4)
    parts = [e.choices[0].logprobs.content for e in events if e.choices[0].logprobs]
    assert [token for part in parts for token in part] == content
    assert whole.choices[0].message.content == tiny.answer(ids, TOKENS).text
    data = bytes(byte for token in content for byte in token.bytes)
    assert data.decode("utf-8", "replace") == whole.choices[0].message.content


def check(
    content: list[Any], answer: list[int], want: torch.Tensor, tiny: Reference, top: int
) -> None:
    """Assert that a chat's tokens have transformers' log-probabilities, and the best their own."""
    assert len(content) == len(answer)
    for token, i, row in zip(content, answer, want, strict=True):
        assert token.logprob == pytest.approx(float(row[i]), abs=1e-3)
        best = row.topk(top).values.tolist()
        assert [each.logprob for each in token.top_logprobs] == pytest.approx(best, abs=1e-3)
        name = tiny.tokenizer.decode([i])
        assert "�" in name or token.token == name


@pytest.mark.parametrize("params", [{}, {"temperature": 1.0, "seed": 4, "presence_penalty": 1.0}])
def test_a_completion_s_log_probabilities_are_those_of_transformers(
    client: OpenAI, tiny: Reference, params: dict[str, Any]
) -> None:
    """Also with a temperature and penalties, which change the choice and not these numbers."""
    answer = tiny.answer(PROMPT, TOKENS, **params)
    want = tiny.logprobs(tiny.tokenizer.encode(PROMPT), answer.ids)
    reply = complete(client, logprobs=3, **params)
    found = reply.choices[0].logprobs
    chosen = [float(row[i]) for row, i in zip(want, answer.ids, strict=True)]
    assert found.token_logprobs == pytest.approx(chosen, abs=1e-3)
    for row, token, best in zip(want, found.tokens, found.top_logprobs, strict=True):
        assert token in best
        assert set(map(rounded, row.topk(3).values.tolist())) <= set(map(rounded, best.values()))
    assert found.text_offset == sorted(found.text_offset)
    places = zip(found.tokens, found.text_offset, strict=True)
    plain = [(name, at) for name, at in places if not name.startswith("bytes:")]
    assert plain and all(answer.text[at:].startswith(name) for name, at in plain)


def rounded(number: float) -> float:
    return round(number, 2)


@pytest.mark.parametrize("stream", [False, True])
def test_no_log_probabilities_unless_asked_for(client: OpenAI, stream: bool) -> None:
    reply = complete(client, max_tokens=3, stream=stream)
    events = list(reply) if stream else [reply]
    assert all(event.choices[0].logprobs is None for event in events)


def test_the_chosen_token_alone(client: OpenAI, tiny: Reference) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    reply = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=5, temperature=0, logprobs=True
    )
    content: Any = reply.choices[0].logprobs and reply.choices[0].logprobs.content
    assert [token.top_logprobs for token in content] == [[]] * 5


def test_log_probabilities_end_before_a_stop_string(client: OpenAI, tiny: Reference) -> None:
    stop = stops_of(tiny)[1]
    reply = complete(client, stop=stop, logprobs=0)
    found = reply.choices[0].logprobs
    assert all(at < len(reply.choices[0].text) for at in found.text_offset)
    assert 0 < len(found.tokens) <= reply.usage.completion_tokens
