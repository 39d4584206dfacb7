"""The official client's own types take our bodies as they are, without any conversion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import Completion, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

import test_ch15_answers as answers
from minisgl.server import reply_models as ours
from minisgl.server.replies import dump


def strictly(kind: type[BaseModel], body: bytes) -> None:
    """The body is of this kind, and the kind has a field for all that is in it."""
    made = kind.model_validate_json(body, strict=True)
    assert made.model_dump(mode="json", exclude_unset=True) == json.loads(body)
    for each in parts(made):
        assert not each.model_extra, f"{type(each).__name__} has no {each.model_extra}"


def parts(model: Any) -> list[BaseModel]:
    """A model and all models within."""
    if isinstance(model, list):
        return [part for item in model for part in parts(item)]
    if not isinstance(model, BaseModel):
        return []
    return [model, *(part for value in dict(model).values() for part in parts(value))]


def finished() -> tuple[Any, list[Any]]:
    return answers.answered(answers.replies("a", "ä", best=answers.best()))


WITH_LOGPROBS = {"logprobs": True, "top_logprobs": 2}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("fields", [{}, WITH_LOGPROBS], ids=["plain", "logprobs"])
@pytest.mark.parametrize("kind", [ChatCompletion, ours.ChatCompletion])
def test_a_chat_is_a_chat_completion(kind: type[BaseModel], fields: dict[str, Any]) -> None:
    answer, _ = finished()
    strictly(kind, dump(answers.chat(**fields).whole([answer, answer])))


@pytest.mark.parametrize("fields", [{}, {"logprobs": 2}], ids=["plain", "logprobs"])
@pytest.mark.parametrize("kind", [Completion, ours.Completion])
def test_a_completion_is_a_completion(kind: type[BaseModel], fields: dict[str, Any]) -> None:
    answer, _ = finished()
    strictly(kind, dump(answers.text(**fields).whole([answer, answer])))


@pytest.mark.parametrize("fields", [{}, WITH_LOGPROBS], ids=["plain", "logprobs"])
@pytest.mark.parametrize("options", [{"stream": True}, USAGE], ids=["without usage", "usage"])
@pytest.mark.parametrize("kind", [ChatCompletionChunk, ours.ChatCompletionChunk])
def test_the_events_of_a_chat_are_chunks(
    kind: type[BaseModel], options: dict[str, Any], fields: dict[str, Any]
) -> None:
    events = answers.streamed(answers.chat(**options, **fields), *finished())
    assert len(events) == (5 if "stream_options" in options else 4)
    for body in events[:-1]:
        strictly(kind, dump(body))


@pytest.mark.parametrize("fields", [{}, {"logprobs": 2}], ids=["plain", "logprobs"])
def test_the_events_of_a_completion_are_completions(fields: dict[str, Any]) -> None:
    *bodies, done = answers.streamed(answers.text(**USAGE, **fields), *finished())
    assert done == "[DONE]"
    for body in bodies:
        strictly(ours.Completion, dump(body))
        for choice in body["choices"]:  # the client's type is that of a whole completion
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        strictly(Completion, dump(body))


def test_a_model_card_is_a_model() -> None:
    card = ours.ModelCard(id="m", root="folder/m")
    kept = card.model_dump(exclude={"root"})  # which OpenAI's API hasn't
    strictly(Model, dump(kept))
    assert ours.ModelList(data=[card]).model_dump()["object"] == "list"
