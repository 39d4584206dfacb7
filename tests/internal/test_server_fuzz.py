"""Requests to the API of every kind: each is answered or refused, and none does any harm."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minisgl.message import AbortMsg, BaseTokenizerMsg, TokenLogprob
from minisgl.server import protocol, reply_models, strict
from minisgl.utils.mp import _pack

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))
from stub_frontend import error, left_over, reply, run  # noqa: E402
from stub_http import Call, stub_api  # noqa: E402

POSTS = {
    "/v1/chat/completions": (protocol.ChatCompletionRequest, reply_models.ChatCompletion),
    "/v1/completions": (protocol.CompletionRequest, reply_models.Completion),
    "/generate": (protocol.GenerateRequest, None),
}
PATHS = [*POSTS, "/v1/models", "/v1/models/no/model", "/health", "/metrics", "/v1", "/docs"]
PATHS += ["/openapi.json", "/", "//", "/v1/", "/v1/models/", "/generate/"]
LARGE = [2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**40]
TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)  # half surrogate pairs too
NUMBERS = st.integers(-3, 200) | st.floats() | st.sampled_from([*LARGE, *(-each for each in LARGE)])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
JSON = st.recursive(
    SCALARS,
    lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXTS, each, max_size=4),
    max_leaves=8,
)
WORDS = st.text("ab é\u20ac\U0001f600", min_size=1, max_size=8)
ROLES = st.sampled_from(["system", "developer", "user", "assistant"])
MESSAGE = st.fixed_dictionaries({"role": ROLES, "content": WORDS})
ODD_MESSAGE = st.fixed_dictionaries(
    {"role": ROLES | st.just("tool") | JSON},
    optional={"content": TEXTS | JSON, "name": JSON, "refusal": JSON, "tool_calls": JSON},
)
RIGHT = {
    "model": st.just("no/model"),
    "prompt": WORDS | st.lists(WORDS, max_size=3) | st.lists(st.integers(0, 9), max_size=3),
    "messages": st.lists(MESSAGE, max_size=3) | st.lists(ODD_MESSAGE, max_size=3),
    "max_tokens": st.integers(1, 9),
    "max_completion_tokens": st.integers(1, 9),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0, 1),
    "top_k": st.integers(-1, 9),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "n": st.integers(1, 4),
    "stop": TEXTS | st.lists(WORDS, max_size=5),
    "stream": st.booleans(),
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": st.booleans()}),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "logprobs": st.booleans() | st.integers(0, 5),
    "top_logprobs": st.integers(0, 20),
    "ignore_eos": st.booleans(),
}
"""For each field values that are mostly right."""


def _fields(model: type) -> Any:
    """Bodies that a model might take: most fields right, others anything, some unknown."""
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    optional = sorted((model.model_fields.keys() & RIGHT.keys()) - set(needed))
    bodies = st.fixed_dictionaries(
        {name: RIGHT[name] for name in needed}, optional={name: RIGHT[name] for name in optional}
    )
    names = st.sampled_from([*RIGHT, *strict.OFF]) | TEXTS
    changes = st.just({}) | st.dictionaries(names, JSON, max_size=2)
    return st.builds(lambda body, change: body | change, bodies, changes)


REQUESTS = st.sampled_from(list(POSTS)).flatmap(
    lambda path: st.tuples(st.just(path), _fields(POSTS[path][0]) | JSON)
)


def _answers(msg: Any) -> list[Any]:
    """Two tokens to each prompt that can be sent, with what was asked for; an error to some."""
    _pack(BaseTokenizerMsg.encoder(msg))  # what a real queue does with it
    if isinstance(msg, AbortMsg):
        return []
    if msg.uid % 7 == 6:
        return [error(msg.uid, "the prompt is too long")]
    count = msg.sampling_params.top_logprobs
    best = None if count is None else [TokenLogprob("ab", b"ab", -1.0)] * (count + 1)
    first = reply(msg.uid, "ab", prompt_tokens=3, logprobs=best)
    return [first, reply(msg.uid, "\ufffd", True, logprobs=best)]


async def _answered(path: str, body: bytes, **more: Any) -> Call:
    """The response to one request, after which nothing is left of it."""
    async with stub_api(_answers, max_body_bytes=4096) as (call, state, queues):
        made = call(path, parts=[body], **more)
        async with asyncio.timeout(10):
            await made.whole()
        assert left_over(state) == [{}, {}, []]
        return made


def _check(path: str, call: Call) -> None:
    """The response is an answer, or an error in the API's shape that blames the request."""
    status, kind = call.status, call.headers.get("content-type", "")
    assert status is not None and status < 500, (status, call.body)
    if status >= 400:
        reply_models.ErrorReply.model_validate_json(call.body, strict=True)
        assert call.json["error"]["type"] == "invalid_request_error"
        assert call.json["error"]["message"]
    elif path in POSTS and kind.startswith("text/event-stream"):
        assert call.body.decode().endswith("data: [DONE]\n\n")
    elif path in POSTS:
        made = POSTS[path][1].model_validate_json(call.body, strict=True)
        assert all(choice.finish_reason in ("stop", "length") for choice in made.choices)


@given(REQUESTS)
@example(("/v1/completions", {"model": "no/model", "prompt": "a", "seed": 2**63 - 1, "n": 4}))
@example(("/v1/completions", {"model": "no/model", "prompt": ["a"] * 300, "n": 128}))
@example(("/v1/chat/completions", {"model": "\ud800", "messages": [], "\ud800": "\udfff"}))
@settings(max_examples=600, deadline=None)
def test_a_json_body_is_answered_or_refused(request_: tuple[str, Any]) -> None:
    path, body = request_
    _check(path, run(_answered(path, json.dumps(body).encode())))


BODIES = st.binary(max_size=64) | REQUESTS.map(lambda each: json.dumps(each[1]).encode())
ODD = [b"[" * 4000, b'{"a":' * 800, b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"NaN", b"1e999", b""]


@given(st.sampled_from(list(POSTS)), BODIES | st.sampled_from(ODD), st.data())
@settings(max_examples=400, deadline=None)
def test_a_body_of_any_bytes_is_answered_or_refused(path: str, body: bytes, data: Any) -> None:
    raw = bytearray(body[: data.draw(st.integers(0, len(body)))] or body)
    for _ in range(data.draw(st.integers(0, 3)) if raw else 0):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    _check(path, run(_answered(path, bytes(raw))))


HEADERS = st.dictionaries(
    st.sampled_from(
        ["content-type", "content-length", "content-encoding", "authorization", "accept", "origin"]
    ),
    st.sampled_from(["application/json", "text/plain", "x/y; charset=zz", "multipart/form-data"])
    | st.text(st.characters(max_codepoint=126, min_codepoint=32), max_size=12),
)
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "NO"]


@given(st.sampled_from(PATHS), st.sampled_from(METHODS), HEADERS, st.binary(max_size=9))
@settings(max_examples=400, deadline=None)
def test_any_method_and_header_is_answered_or_refused(
    path: str, method: str, headers: dict[str, str], body: bytes
) -> None:
    _check(path, run(_answered(path, body, method=method, headers=headers)))


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=20))
@settings(max_examples=200, deadline=None)
def test_any_path_is_answered_or_refused(name: str) -> None:
    for path in (f"/{name}", f"/v1/models/{name}"):
        _check(path, run(_answered(path, b"", method="GET")))


@pytest.mark.parametrize("path", list(POSTS))
def test_the_requests_here_are_answered_as_well_as_refused(path: str) -> None:
    seen = set()

    @given(_fields(POSTS[path][0]))
    @settings(max_examples=100, deadline=None, database=None)
    def ask(body: Any) -> None:
        seen.add(run(_answered(path, json.dumps(body).encode())).status)

    ask()
    assert seen >= {200, 400}
