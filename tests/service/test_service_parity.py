"""The service's text is that of LLM.generate and of transformers, greedy and in float32."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI
from reference import CHAT, PROMPTS, Expected, Reference
from running import MODELS, running_server

TOKENS = 8
TEMPLATED = [CHAT, [{"role": "user", "content": "hi"}]]


@pytest.fixture(scope="module", params=["tiny-qwen3", "smollm2-135m", "tiny-llama3"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[OpenAI, Reference]]:
    """A server of each model, and what the model answers without it."""
    shared = {"tiny-qwen3": ("server", "tiny"), "smollm2-135m": ("smollm2", "small")}
    if request.param in shared:
        running, reference = map(request.getfixturevalue, shared[request.param])
        with running.client() as client:
            yield client, reference
        return
    if not (MODELS / request.param / "config.json").is_file():
        pytest.skip(f"{request.param} isn't here (make models)")
    reference = Reference(request.param)
    server = running_server("--num-pages", "8192", model=request.param)
    with server as running, running.client() as client:
        yield client, reference
    reference.close()


def the_model(client: OpenAI) -> str:
    return client.models.list().data[0].id


def transformers_answer(reference: Reference, ids: list[int]) -> Expected:
    made = reference.transformers_ids(ids, TOKENS)
    return Expected(reference.tokenizer.decode(made), made)


def test_completions_of_texts(served: tuple[OpenAI, Reference]) -> None:
    client, reference = served
    whole = client.completions.create(
        model=the_model(client), prompt=PROMPTS, max_tokens=TOKENS, temperature=0
    )
    want = reference.answers(PROMPTS, TOKENS)
    assert [choice.text for choice in whole.choices] == [each.text for each in want]
    other = [transformers_answer(reference, reference.tokenizer.encode(p)) for p in PROMPTS]
    assert want == other
    assert [choice.index for choice in whole.choices] == list(range(len(PROMPTS)))


def test_completions_of_ids(served: tuple[OpenAI, Reference]) -> None:
    client, reference = served
    ids = [list(range(10, 10 + n)) for n in (1, 5, 33)]
    whole = client.completions.create(
        model=the_model(client), prompt=ids, max_tokens=TOKENS, temperature=0
    )
    one = client.completions.create(
        model=the_model(client), prompt=ids[1], max_tokens=TOKENS, temperature=0
    )
    want = [transformers_answer(reference, each) for each in ids]
    assert reference.answers(ids, TOKENS) == want  # type: ignore[arg-type]
    assert [choice.text for choice in whole.choices] == [each.text for each in want]
    assert one.choices[0].text == want[1].text
    assert one.usage and one.usage.prompt_tokens == 5


@pytest.mark.parametrize("messages", TEMPLATED)
def test_chats(served: tuple[OpenAI, Reference], messages: list[dict[str, str]]) -> None:
    client, reference = served
    ids = reference.chat_ids(messages)
    want = reference.answer(ids, TOKENS)
    assert want == transformers_answer(reference, ids)
    chat = client.chat.completions.create(
        model=the_model(client),
        messages=messages,  # type: ignore[arg-type]
        max_tokens=TOKENS,
        temperature=0,
    )
    assert chat.choices[0].message.content == want.text
    assert chat.usage
    assert chat.usage.prompt_tokens == len(ids)
    assert chat.usage.completion_tokens == len(want.ids)


def test_streams(served: tuple[OpenAI, Reference]) -> None:
    client, reference = served
    want = reference.answers(PROMPTS, TOKENS)
    for prompt, answer in zip(PROMPTS, want, strict=True):
        stream = client.completions.create(
            model=the_model(client), prompt=prompt, max_tokens=TOKENS, temperature=0, stream=True
        )
        assert "".join(event.choices[0].text for event in stream) == answer.text
