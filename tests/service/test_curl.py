"""curl and bare HTTP get what OpenAI's client gets."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import httpx
import pytest
from reference import PROMPTS, Reference
from running import Running

from pairs import public_bug

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl isn't here")

HI = [{"role": "user", "content": "hi"}]


def curl(server: Running, path: str, *args: str, **fields: Any) -> str:
    """Return what `curl` prints; fields, if any, are sent as JSON."""
    body = ["-H", "Content-Type: application/json", "-d", json.dumps(fields)] if fields else []
    command = ["curl", "-sS", "--max-time", "30", *args, *body, server.url + path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert done.returncode == 0, done.stderr
    return done.stdout


def chat_fields(**more: Any) -> dict[str, Any]:
    return {"model": "tiny-qwen3", "messages": HI, "max_tokens": 9, "temperature": 0} | more


@public_bug("B84")
def test_a_chat_in_one_piece(server: Running, tiny: Reference) -> None:
    head, body = curl(server, "/v1/chat/completions", "-i", **chat_fields()).split("\n\n", 1)
    assert head.startswith("HTTP/1.1 200")
    assert "content-type: application/json" in head.lower()
    reply = json.loads(body)
    want = tiny.answer(tiny.chat_ids(HI), 9)
    assert reply["object"] == "chat.completion"
    assert reply["choices"][0]["message"]["content"] == want.text


@public_bug("B84", "B85")
def test_a_stream_is_events_up_to_done(server: Running, tiny: Reference) -> None:
    given = chat_fields(stream=True)
    head, body = curl(server, "/v1/chat/completions", "-iN", **given).split("\n\n", 1)
    assert "content-type: text/event-stream" in head.lower()
    *events, done, end = body.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    read = [json.loads(event.removeprefix("data: ")) for event in events]
    assert {event["object"] for event in read} == {"chat.completion.chunk"}
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in read)
    assert text == tiny.answer(tiny.chat_ids(HI), 9).text


def test_a_completion(server: Running, tiny: Reference) -> None:
    given = {"model": "tiny-qwen3", "prompt": PROMPTS[4], "max_tokens": 9, "temperature": 0}
    reply = json.loads(curl(server, "/v1/completions", **given))
    assert reply["choices"][0]["text"] == tiny.answer(PROMPTS[4], 9).text
    assert reply["usage"]["prompt_tokens"] == len(tiny.tokenizer.encode(PROMPTS[4]))


def test_a_refusal_of_a_stream_has_a_status(server: Running) -> None:
    told = curl(server, "/v1/chat/completions", "-i", **chat_fields(stream=True, n=0))
    assert told.startswith("HTTP/1.1 400")
    assert json.loads(told.split("\n\n", 1)[1])["error"]["param"] == "n"


def test_a_body_without_a_content_type_is_refused_in_a_sentence(server: Running) -> None:
    """curl -d alone says that it sends a form."""
    told = curl(server, "/v1/completions", "-d", json.dumps(chat_fields()))
    assert "Content-Type: application/json" in json.loads(told)["error"]["message"]


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/docs", "/openapi.json"])
def test_pages_can_be_read_by_curl(server: Running, path: str) -> None:
    assert curl(server, path, "-o", "/dev/null", "-w", "%{http_code}") == "200"


def test_one_connection_serves_many_requests(server: Running, tiny: Reference) -> None:
    """Also after a refusal and after a stream that was read to its end."""
    with httpx.Client(base_url=server.url, timeout=30) as web:
        for i in range(12):
            given = chat_fields(stream=i % 3 == 0, **({"n": 0} if i % 3 == 1 else {}))
            reply = web.post("/v1/chat/completions", json=given)
            assert reply.status_code == (400 if i % 3 == 1 else 200)
            if i % 3 == 2:
                content = reply.json()["choices"][0]["message"]["content"]
                assert content == tiny.answer(tiny.chat_ids(HI), 9).text
