"""What a request may ask for, with OpenAI's client: each field does what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from reference import CHAT, PROMPTS, Expected, Reference
from running import Running, running_server

from pairs import public_bug

MODEL = "tiny-qwen3"
HI = [{"role": "user", "content": "hi"}]


def complete(client: OpenAI, prompt: str | list[int], max_tokens: int = 12, **more: Any) -> Any:
    """Return the reply to one prompt, greedy unless told."""
    given = {"temperature": 0, "prompt": prompt, "max_tokens": max_tokens} | more
    return client.completions.create(model=MODEL, **given)


def chat(client: OpenAI, messages: Any = HI, max_tokens: int = 12, **more: Any) -> Any:
    """Return the reply to a chat, greedy unless told."""
    given = {"temperature": 0, "messages": messages, "max_tokens": max_tokens} | more
    return client.chat.completions.create(model=MODEL, **given)


@public_bug("B84", "B85")
def test_a_chat_in_one_piece(client: OpenAI, tiny: Reference) -> None:
    reply = chat(client, max_tokens=3, stream=False)
    want = tiny.answer(tiny.chat_ids(HI), 3)
    assert reply.object == "chat.completion"
    assert reply.id.startswith("chatcmpl-")
    assert reply.model == MODEL
    (choice,) = reply.choices
    assert (choice.message.role, choice.message.content) == ("assistant", want.text)
    assert choice.finish_reason == "length"
    prompt = len(tiny.chat_ids(HI))
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (prompt, 3)
    assert usage.total_tokens == prompt + 3


@public_bug("B85")
@pytest.mark.parametrize("has_usage", [False, True])
def test_a_chat_s_stream(client: OpenAI, tiny: Reference, has_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if has_usage else {}
    events = list(chat(client, max_tokens=5, stream=True, **options))
    assert {event.object for event in events} == {"chat.completion.chunk"}
    assert len({event.id for event in events}) == 1
    if has_usage:
        last = events.pop()
        assert last.choices == []
        assert last.usage.completion_tokens == 5
        assert last.usage.prompt_tokens == len(tiny.chat_ids(HI))
    assert all(event.usage is None for event in events)
    choices = [event.choices[0] for event in events]
    assert choices[0].delta.role == "assistant"
    text = "".join(choice.delta.content or "" for choice in choices)
    assert text == tiny.answer(tiny.chat_ids(HI), 5).text
    assert [choice.finish_reason for choice in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1].finish_reason == "length"


@pytest.mark.parametrize("has_usage", [False, True])
def test_a_completion_s_stream(client: OpenAI, tiny: Reference, has_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if has_usage else {}
    events = list(complete(client, PROMPTS[0], stream=True, **options))
    assert {event.object for event in events} == {"text_completion"}
    want = tiny.answer(PROMPTS[0], 12)
    if has_usage:
        last = events.pop()
        assert last.choices == []
        assert last.usage.completion_tokens == len(want.ids)
    assert "".join(event.choices[0].text for event in events) == want.text
    assert events[-1].choices[0].finish_reason == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_the_async_client_gets_the_same(server: Running, tiny: Reference, stream: bool) -> None:
    async def ask() -> str:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            reply: Any = await client.chat.completions.create(
                model=MODEL,
                messages=CHAT,  # type: ignore[arg-type]
                max_tokens=8,
                temperature=0,
                stream=stream,
            )
            if not stream:
                return str(reply.choices[0].message.content)
            return "".join([event.choices[0].delta.content or "" async for event in reply])

    assert asyncio.run(ask()) == tiny.answer(tiny.chat_ids(CHAT), 8).text


def test_the_client_s_stream_helper_builds_the_same_answer(client: OpenAI, tiny: Reference) -> None:
    """It parses what has ended by itself, so the answer ends at a stop string."""
    text = tiny.answer(tiny.chat_ids(HI), 20).text
    want = text[: text.index(text[9:12])]
    given: Any = {"model": MODEL, "messages": HI, "max_tokens": 20, "temperature": 0}
    given |= {"stop": text[9:12], "logprobs": True, "stream_options": {"include_usage": True}}
    with client.chat.completions.stream(**given) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        built = stream.get_final_completion()
    assert "".join(deltas) == built.choices[0].message.content == want
    assert built.choices[0].finish_reason == "stop"
    logprobs = built.choices[0].logprobs
    assert built.usage and logprobs and logprobs.content
    assert 0 < len(logprobs.content) <= built.usage.completion_tokens < 20


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("tokens", [1, 7])
def test_a_chat_s_limit(client: OpenAI, tiny: Reference, field: str, tokens: int) -> None:
    reply = client.chat.completions.create(
        model=MODEL,
        messages=HI,  # type: ignore[arg-type]
        temperature=0,
        **{field: tokens},  # type: ignore[arg-type]
    )
    assert reply.choices[0].message.content == tiny.answer(tiny.chat_ids(HI), tokens).text
    assert reply.usage and reply.usage.completion_tokens == tokens


def test_a_completion_has_16_tokens_unless_told(client: OpenAI, tiny: Reference) -> None:
    reply = client.completions.create(model=MODEL, prompt=PROMPTS[1], temperature=0)
    assert reply.choices[0].text == tiny.answer(PROMPTS[1], 16).text
    assert reply.usage and reply.usage.completion_tokens == 16


@pytest.fixture(scope="module")
def short(tiny: Reference, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A client of a server whose requests have at most 64 tokens.

    Its checkpoint is tiny-qwen3's with one more end id, which the greedy answer to PROMPTS[0] has.
    """
    folder = tmp_path_factory.mktemp("models") / MODEL
    folder.mkdir()
    for file in Path(tiny.folder).iterdir():
        (folder / file.name).symlink_to(file.resolve())
    (folder / "generation_config.json").unlink()
    ends = json.dumps({"eos_token_id": [1030, end_of(tiny)]})
    (folder / "generation_config.json").write_text(ends)
    server = running_server("--max-seq-len-override", "64", model=str(folder))
    with server as running, running.client() as client:
        yield client


def end_of(tiny: Reference) -> int:
    """Return an id that comes first in the midst of the greedy answer to PROMPTS[0]."""
    ids = tiny.answer(PROMPTS[0], 12).ids
    return next(token for i, token in enumerate(ids) if i > 3 and token not in ids[:i])


@public_bug("B82")
def test_an_end_id_of_the_generation_config_ends_an_answer(short: OpenAI, tiny: Reference) -> None:
    ids = tiny.answer(PROMPTS[0], 12).ids
    shown = ids[: ids.index(end_of(tiny))]
    whole = complete(short, PROMPTS[0], logprobs=0)
    assert whole.choices[0].text == tiny.tokenizer.decode(shown)
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == len(shown)
    assert len(whole.choices[0].logprobs.tokens) == len(shown), "an end id is not part of it"
    events = list(complete(short, PROMPTS[0], stream=True))
    assert "".join(event.choices[0].text for event in events) == tiny.tokenizer.decode(shown)
    assert events[-1].choices[0].finish_reason == "stop"
    beyond = complete(short, PROMPTS[0], extra_body={"ignore_eos": True})
    assert beyond.choices[0].text == tiny.answer(PROMPTS[0], 12).text


def test_a_limit_beyond_the_context_is_cut(short: OpenAI) -> None:
    reply = complete(short, [5] * 60, 10_000, extra_body={"ignore_eos": True})
    assert (reply.usage.completion_tokens, reply.usage.total_tokens) == (4, 64)
    assert reply.choices[0].finish_reason == "length"


@public_bug("B88")
def test_a_chat_runs_to_the_context_s_end_unless_told(short: OpenAI, tiny: Reference) -> None:
    reply = chat(short, max_tokens=None, extra_body={"ignore_eos": True})
    left = 64 - len(tiny.chat_ids(HI))
    want = tiny.answer(tiny.chat_ids(HI), left, ignore_eos=True)
    assert reply.choices[0].message.content == want.text
    assert reply.choices[0].finish_reason == "length"
    assert (reply.usage.completion_tokens, reply.usage.total_tokens) == (left, 64)


@public_bug("B91")
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_nearly_fills_the_context_gets_one_token(short: OpenAI, stream: bool) -> None:
    reply = complete(short, [5] * 63, 10, stream=stream)
    events = list(reply) if stream else [reply]
    assert events[-1].choices[0].finish_reason == "length"
    if not stream:
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (63, 1)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.7},
        {"temperature": 1.5, "top_p": 0.8},
        {"temperature": 1.2, "top_k": 5},
        {"temperature": 1.0, "top_k": 50, "top_p": 0.5},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 1.0, "top_p": 1e-6},
    ],
)
def test_sampled_answers_are_those_of_generate(
    client: OpenAI, tiny: Reference, params: dict[str, Any]
) -> None:
    want = tiny.answer(PROMPTS[0], 12, seed=42, **params)
    given = {"seed": 42, **params, "extra_body": {"top_k": params.get("top_k", -1)}}
    given.pop("top_k", None)
    assert complete(client, PROMPTS[0], **given).choices[0].text == want.text
    events = complete(client, PROMPTS[0], **given, stream=True)
    assert "".join(event.choices[0].text for event in events) == want.text


def test_a_filter_of_one_token_is_greedy(client: OpenAI, tiny: Reference) -> None:
    want = tiny.answer(PROMPTS[0], 12).text
    one = complete(client, PROMPTS[0], temperature=1.0, seed=1, extra_body={"top_k": 1})
    few = complete(client, PROMPTS[0], temperature=1.0, seed=1, top_p=1e-6)
    assert one.choices[0].text == few.choices[0].text == want


def test_a_seed_repeats_an_answer(client: OpenAI) -> None:
    texts = [
        chat(client, seed=seed, temperature=1.0, max_tokens=20).choices[0].message.content
        for seed in (7, 7, 8, None, None)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[1:])) == 4


@public_bug("B92")
def test_n_answers_have_seeds_of_their_own(client: OpenAI, tiny: Reference) -> None:
    reply = chat(client, n=3, seed=100, temperature=1.0, max_tokens=10)
    ids = tiny.chat_ids(HI)
    want = tiny.seeded(ids, 10, range(100, 103), temperature=1.0)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert [choice.message.content for choice in reply.choices] == [each.text for each in want]
    assert reply.usage.completion_tokens == sum(len(each.ids) for each in want)
    assert reply.usage.prompt_tokens == len(ids)


@public_bug("B92")
def test_n_streams_interleave_and_each_is_whole(client: OpenAI, tiny: Reference) -> None:
    ids = tiny.chat_ids(HI)
    want = tiny.seeded(ids, 30, range(5, 8), temperature=1.0, ignore_eos=True)
    events = chat(
        client,
        n=3,
        seed=5,
        temperature=1.0,
        max_tokens=30,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    texts, order, ends, counts = [""] * 3, [], [], []
    for event in events:
        if event.usage:
            counts.append((event.usage.prompt_tokens, event.usage.completion_tokens))
        for choice in event.choices:
            texts[choice.index] += choice.delta.content or ""
            order.append(choice.index)
            assert choice.index not in ends, "a choice goes on behind its end"
            if choice.finish_reason:
                ends.append(choice.index)
    assert texts == [each.text for each in want]
    assert sorted(ends) == [0, 1, 2]
    assert counts == [(len(ids), 90)]
    assert sum(a != b for a, b in zip(order, order[1:], strict=False)) > 10, "one after the other"


@public_bug("B92")
def test_n_and_several_prompts(client: OpenAI, tiny: Reference) -> None:
    reply = client.completions.create(
        model=MODEL, prompt=PROMPTS[:2], n=2, seed=3, temperature=1.0, max_tokens=6
    )
    both = [tiny.seeded(prompt, 6, (3, 4), temperature=1.0) for prompt in PROMPTS[:2]]
    assert [choice.text for choice in reply.choices] == [each.text for two in both for each in two]
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert reply.usage
    assert reply.usage.prompt_tokens == sum(len(tiny.tokenizer.encode(p)) for p in PROMPTS[:2])


@public_bug("B92")
@pytest.mark.parametrize(
    "params",
    [
        {"presence_penalty": 1.5},
        {"frequency_penalty": 2.0},
        {"presence_penalty": -2.0, "frequency_penalty": -0.5},
        {"frequency_penalty": 0.7, "temperature": 0.9, "seed": 11},
    ],
)
def test_penalties_are_those_of_generate(
    client: OpenAI, tiny: Reference, params: dict[str, Any]
) -> None:
    prompt = [7] * 9
    want = tiny.answer(prompt, 40, ignore_eos=True, **params)
    given = {**params, "extra_body": {"ignore_eos": True}}
    assert complete(client, prompt, 40, **given).choices[0].text == want.text
    events = complete(client, prompt, 40, **given, stream=True)
    assert "".join(event.choices[0].text for event in events) == want.text


def test_penalties_change_the_answer(tiny: Reference) -> None:
    """So that the test above would see them ignored."""
    prompt = [7] * 9
    plain = tiny.answer(prompt, 40, ignore_eos=True)
    assert tiny.answer(prompt, 40, ignore_eos=True, frequency_penalty=2.0) != plain
    assert tiny.answer(prompt, 40, ignore_eos=True, presence_penalty=1.5) != plain


def an_answer_that_ends(tiny: Reference) -> tuple[int, Expected]:
    """Return a seed with which a sampled answer to "hi" ends by itself, and that answer."""
    answers = enumerate(tiny.seeded("hi", 40, range(20), temperature=1.5))
    return next((seed, want) for seed, want in answers if 2 < len(want.ids) < 40)


@public_bug("B85")
@pytest.mark.parametrize("stream", [False, True])
def test_an_end_id_ends_an_answer_and_is_not_counted(
    client: OpenAI, tiny: Reference, stream: bool
) -> None:
    seed, want = an_answer_that_ends(tiny)
    options = {"stream_options": {"include_usage": True}} if stream else {}
    reply = complete(client, "hi", 40, temperature=1.5, seed=seed, stream=stream, **options)
    events = list(reply) if stream else [reply]
    choices = [choice for event in events for choice in event.choices]
    assert "".join(choice.text for choice in choices) == want.text
    assert choices[-1].finish_reason == "stop"
    assert events[-1].usage.completion_tokens == len(want.ids)


def test_ignore_eos_goes_on(client: OpenAI, tiny: Reference) -> None:
    seed, short = an_answer_that_ends(tiny)
    want = tiny.answer("hi", 40, temperature=1.5, seed=seed, ignore_eos=True)
    assert want.ids[: len(short.ids)] == short.ids
    extra = {"ignore_eos": True}
    reply = complete(client, "hi", 40, temperature=1.5, seed=seed, extra_body=extra)
    assert reply.choices[0].text == want.text
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 40


def test_a_real_model_ends_its_answer(smollm2: Running, small: Reference) -> None:
    messages = [{"role": "user", "content": "Say only the word yes."}]
    want = small.answer(small.chat_ids(messages), 24)
    with smollm2.client() as client:
        reply = client.chat.completions.create(
            model="smollm2-135m",
            messages=messages,  # type: ignore[arg-type]
            temperature=0,
            max_tokens=24,
        )
    assert reply.choices[0].message.content == want.text
    assert reply.usage and reply.usage.completion_tokens == len(want.ids)
    assert reply.choices[0].finish_reason == "stop"


@public_bug("B93")
def test_messages_in_other_forms(client: OpenAI, tiny: Reference) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "more"},
    ]
    plain = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "ab"},
        *messages[2:],
    ]
    reply = chat(client, messages)
    want = tiny.answer(tiny.chat_ids(plain), 12)  # type: ignore[arg-type]
    assert reply.choices[0].message.content == want.text
    assert reply.usage.prompt_tokens == len(tiny.chat_ids(plain))  # type: ignore[arg-type]


def test_an_answer_s_message_can_be_sent_back(client: OpenAI) -> None:
    first = chat(client, max_tokens=4).choices[0].message
    again = [*HI, first, {"role": "user", "content": "and then?"}]
    assert chat(client, again, max_tokens=4).usage.completion_tokens <= 4
