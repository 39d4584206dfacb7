"""Requests of every kind that the OpenAPI document allows, and of kinds that it doesn't."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from running import Running, running_server
from schemathesis.checks import CHECKS

from minisgl.server.api_server import app

CONTEXT = 64
FOREIGN = {"ignored_auth", "use_after_free", "ensure_resource_availability"}
"""Checks of what this API doesn't have: keys that the document names, and things to make."""


def _schema(mode: str) -> Any:
    given = {"generation": {"deterministic": True, "mode": mode}}
    config = schemathesis.Config.from_dict(given)
    return schemathesis.openapi.from_dict(app.openapi(), config=config)


everything, allowed = _schema("all"), _schema("positive")
bounded = settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def short() -> Iterator[Running]:
    """A server whose answers are short, since its context is."""
    given = ("--max-seq-len-override", str(CONTEXT), "--num-pages", "8192")
    with running_server(*given) as running:
        yield running


def test_the_document_is_one_of_openapi_and_is_served(short: Running) -> None:
    everything.validate()
    assert httpx.get(f"{short.url}/openapi.json").json() == everything.raw_schema


@everything.parametrize()
@bounded
def test_the_api_is_as_its_document_says(case: schemathesis.Case, short: Running) -> None:
    left_out = _checks(FOREIGN | {"positive_data_acceptance"})  # for which see the next test
    case.call_and_validate(base_url=short.url, excluded_checks=left_out, timeout=60)


@allowed.include(method="POST").parametrize()
@bounded
def test_what_the_document_allows_is_answered(case: schemathesis.Case, short: Running) -> None:
    """What a schema can't say is set right: the model's name, lengths, fields that need others."""
    case.body = _fitting(_whole(case.body))
    response = case.call(base_url=short.url, timeout=60)
    assert response.status_code == 200, (response.text, case.body)
    case.validate_response(response, excluded_checks=_checks(FOREIGN))


def _checks(names: set[str]) -> list[Any]:
    return [CHECKS.get_one(name) for name in sorted(names)]


def _fitting(body: dict[str, Any]) -> dict[str, Any]:
    """The body as the tiny model can answer it."""
    body = dict(body)
    if "model" in body:
        body["model"] = "tiny-qwen3"
    if body.get("seed"):
        body["seed"] %= 2**63  # the document has its limits as floats, which are not exact there
    if body.get("n"):
        body["n"] = min(body["n"], 3)
    if "prompt" in body:
        body["prompt"] = _short(body["prompt"])
    if "messages" in body:
        body["messages"] = [_plain(message) for message in body["messages"][:2]]
    if not body.get("logprobs"):
        body.pop("top_logprobs", None)
    if not body.get("stream"):
        body.pop("stream_options", None)
    if body.get("max_tokens"):
        body.pop("max_completion_tokens", None)
    return body


def _whole(value: Any) -> Any:
    """1 for 1.0, which a JSON schema calls an integer, but the API doesn't."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _short(prompt: Any) -> Any:
    """A text of few tokens, few ids of the vocabulary, or few of these."""
    if isinstance(prompt, int):
        return prompt % 200
    if isinstance(prompt, str):
        return prompt[:8]
    return [_short(each) for each in prompt[:8]]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message of few tokens."""
    content = message["content"]
    if isinstance(content, str):
        return message | {"content": content[:4]}
    return message | {"content": [part | {"text": part["text"][:4]} for part in content[:1]]}
