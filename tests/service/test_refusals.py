"""What is wrong gets its status and one sentence, in the shape that OpenAI's client knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from reference import Reference
from running import Running, running_server

from pairs import public_bug

MODEL = "tiny-qwen3"
HI = [{"role": "user", "content": "hi"}]
KEY = "secret-1"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def web(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as web:
        yield web


def error_of(reply: httpx.Response, status: int, kind: str = "invalid_request_error") -> Any:
    """Return an error; asserts its status, its shape and that its message is one sentence."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == kind
    assert body["error"]["message"] and "\n" not in body["error"]["message"]
    return body["error"]


def post(web: httpx.Client, path: str, **fields: Any) -> httpx.Response:
    """Ask for 3 tokens, with fields in place of what is right; one of ... is left out."""
    right = {"messages": HI} if path == CHAT else {"prompt": "hi"}
    given = {"model": MODEL, "max_tokens": 3} | right | fields
    return web.post(path, json={key: each for key, each in given.items() if each is not ...})


WRONG_IN_BOTH: list[tuple[dict[str, Any], str]] = [
    ({"model": ...}, "model"),
    ({"model": 3}, "model"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 2.5}, "max_tokens"),
    ({"max_tokens": "7"}, "max_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.5}, "top_p"),
    ({"top_k": 0}, "top_k"),
    ({"top_k": -2}, "top_k"),
    ({"seed": 1.5}, "seed"),
    ({"seed": 2**63}, "seed"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"more": True}}, "stream_options.more"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"stop": [3]}, "stop"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -2.5}, "frequency_penalty"),
    ({"ignore_eos": 1}, "ignore_eos"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"no_such_field": 1}, "no_such_field"),
    ({"user": "me"}, "user"),
]
WRONG_IN_CHATS: list[tuple[dict[str, Any], str]] = [
    ({"messages": ...}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
    ({"messages": [{"role": "nobody", "content": "x"}]}, "messages.0.role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content"),
    ({"messages": [*HI, {"role": "user", "content": "x", "name": "me"}]}, "messages.1.name"),
    ({"max_completion_tokens": 4}, "max_completion_tokens"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": 3}, "logprobs"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
]
WRONG_IN_TEXTS: list[tuple[dict[str, Any], str]] = [
    ({"prompt": ...}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [""]}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": 5}, "prompt"),
    ({"logprobs": 6}, "logprobs"),
    ({"logprobs": True}, "logprobs"),
    ({"echo": True}, "echo"),
    ({"best_of": 2}, "best_of"),
    ({"suffix": "x"}, "suffix"),
]
CASES = [(path, *case) for path in (CHAT, TEXT) for case in WRONG_IN_BOTH]
CASES += [(CHAT, *case) for case in WRONG_IN_CHATS] + [(TEXT, *case) for case in WRONG_IN_TEXTS]


@public_bug("B89", "B92", "B93")
@pytest.mark.parametrize(("path", "fields", "param"), CASES)
def test_a_wrong_field_is_named(
    web: httpx.Client, path: str, fields: dict[str, Any], param: str
) -> None:
    error = error_of(post(web, path, **fields), 400)
    assert error["param"] == param
    assert param in error["message"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_what_says_nothing_new_is_taken(web: httpx.Client, path: str) -> None:
    fields: dict[str, Any] = {"stop": None, "n": None, "logit_bias": {}, "user": None, "seed": None}
    assert post(web, path, **fields).status_code == 200


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"model": "tiny-qwen3",}', b"[]", b"3", b"\xff\xfe", b'{"a": NaN}']
)
def test_what_is_no_json_object(web: httpx.Client, path: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    error_of(web.post(path, content=body, headers=headers), 400)


def test_malformed_json_is_called_that(web: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    error = error_of(web.post(CHAT, content=b'{"model": }', headers=headers), 400)
    assert "not valid JSON" in error["message"]
    assert "character 10" in error["message"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model_is_not_found(web: httpx.Client, path: str, stream: bool) -> None:
    error = error_of(post(web, path, model="gpt-4", stream=stream), 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert MODEL in error["message"]


def test_another_path_or_method(web: httpx.Client) -> None:
    assert "path" in error_of(web.get("/v1/other"), 404)["message"]
    wrong = web.get(CHAT)
    assert "GET" in error_of(wrong, 405)["message"]
    assert wrong.headers["allow"] == "POST"
    error_of(web.delete("/v1/models"), 405)


@public_bug("B91")
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_is_refused_with_both_lengths(
    web: httpx.Client, stream: bool
) -> None:
    for tokens in (1024, 1500):
        error = error_of(post(web, TEXT, prompt=[5] * tokens, stream=stream), 400)
        assert str(tokens) in error["message"] and "1024" in error["message"]
    chat = [{"role": "user", "content": "a b " * 2000}]
    assert "1024" in error_of(post(web, CHAT, messages=chat, stream=stream), 400)["message"]
    assert post(web, TEXT, prompt=[5] * 1023, stream=stream).status_code == 200


def test_an_id_outside_the_vocabulary_is_refused(web: httpx.Client) -> None:
    assert post(web, TEXT, prompt=[1030]).status_code == 200
    assert "1031" in error_of(post(web, TEXT, prompt=[5, 1031]), 400)["message"]
    error_of(post(web, TEXT, prompt=[2**31 - 1]), 400)
    error_of(post(web, TEXT, prompt=[2**31]), 400)


def test_openai_s_client_raises_its_own_errors(client: OpenAI) -> None:
    given: Any = {"model": MODEL, "messages": HI, "max_tokens": 3}
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(**given | {"temperature": 9})
    assert (bad.value.param, bad.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**given | {"messages": []}, stream=True)
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(**given | {"model": "other"})
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="hi")
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=MODEL, prompt=[5] * 2000)


def test_a_wrong_request_in_the_midst_of_a_stream_harms_it_not(
    client: OpenAI, web: httpx.Client, tiny: Reference
) -> None:
    want = tiny.answer([5, 6, 7], 100, ignore_eos=True).text
    stream = client.completions.create(
        model=MODEL,
        prompt=[5, 6, 7],
        max_tokens=100,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    text = ""
    for i, event in enumerate(stream):
        text += event.choices[0].text
        if i % 10 == 0:
            assert post(web, TEXT, prompt=[9999]).status_code == 400
            assert post(web, CHAT, n=-1).status_code == 400
    assert text == want


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    """A server with a key, small bodies and room for two waiting requests."""
    args = ("--api-key", KEY, "--max-body-bytes", "2048", "--max-waiting", "2")
    with running_server(*args, "--max-running-requests", "1") as running:
        yield running


@pytest.mark.parametrize("given", [None, "wrong", "secret", "secret-12", "secret-κ"])
def test_a_key_is_asked_for(strict: Running, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": f"Bearer {given}".encode()}
    for path in ("/v1/models", "/metrics", "/docs", "/v1"):
        reply = httpx.get(strict.url + path, headers=headers)  # type: ignore[arg-type]
        error = error_of(reply, 401)
        assert error["code"] == "invalid_api_key"
        assert reply.headers["www-authenticate"] == "Bearer"
        assert "secret" not in reply.text
    reply = httpx.post(strict.url + CHAT, json={}, headers=headers)  # type: ignore[arg-type]
    error_of(reply, 401)
    assert httpx.get(f"{strict.url}/health").status_code == 200


RIGHT = {"Authorization": f"Bearer {KEY}".encode()}


def test_the_right_key_opens(strict: Running) -> None:
    for path in ("/v1/models", "/metrics", "/docs", "/health"):
        assert httpx.get(strict.url + path, headers=RIGHT).status_code == 200  # type: ignore[arg-type]
    with strict.client(api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_a_body_that_is_too_large(strict: Running) -> None:
    large = {"model": MODEL, "prompt": "x" * 3000}
    reply = httpx.post(strict.url + TEXT, json=large, headers=RIGHT)  # type: ignore[arg-type]
    assert "2048" in error_of(reply, 413)["message"]
    parts = (b"x" * 500 for _ in range(10))  # without a Content-Length
    reply = httpx.post(strict.url + TEXT, content=parts, headers=RIGHT)  # type: ignore[arg-type]
    error_of(reply, 413)


def test_too_many_waiting_requests_are_turned_away(strict: Running) -> None:
    """One runs and two wait, so that the next is told to come again."""
    error = asyncio.run(_turned_away(strict))
    body = error_of(error.response, 429, "rate_limit_error")
    assert body["code"] == "rate_limit_exceeded"
    assert int(error.response.headers["retry-after"]) >= 1
    with strict.client(api_key=KEY) as client:
        reply = client.completions.create(model=MODEL, prompt=[5], max_tokens=3, temperature=0)
        assert reply.usage and reply.usage.completion_tokens == 3
        with pytest.raises(openai.BadRequestError) as never:
            client.completions.create(model=MODEL, prompt=[5], n=3)
    assert never.value.param == "n"


async def _turned_away(server: Running) -> openai.RateLimitError:
    """Fill the server's queue, and return what one request more gets."""
    given: Any = {"model": MODEL, "prompt": [5], "max_tokens": 900, "stream": True}
    given |= {"extra_body": {"ignore_eos": True}}
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as client:
        running = await client.completions.create(**given)
        await anext(aiter(running))
        waiting = [asyncio.create_task(client.completions.create(**given)) for _ in range(2)]
        await asyncio.sleep(0.5)
        with pytest.raises(openai.RateLimitError) as caught:
            await client.completions.create(**given)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await running.close()
    return caught.value
