"""A client that can do what a well-made one can't: go away, stop reading, send slowly."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any

LONG = {"max_tokens": 1000, "ignore_eos": True, "temperature": 0}
"""Fields of an answer that goes on until somebody ends it."""


class Call:
    """One request on a connection of its own. receive_buffer: bytes that wait to be read here."""

    def __init__(
        self,
        port: int,
        path: str = "/v1/completions",
        body: dict[str, Any] | bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30,
        receive_buffer: int | None = None,
    ) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.sock = self._connection.sock = socket.socket()
        self.sock.settimeout(timeout)
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.connect(("127.0.0.1", port))
        raw = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Content-Type": "application/json", **(headers or {})}
        self._connection.request("GET" if raw is None else "POST", path, raw, headers)
        self._response: HTTPResponse | None = None

    @property
    def response(self) -> HTTPResponse:
        """The status and the headers, once they are there."""
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    @property
    def status(self) -> int:
        return self.response.status

    def text(self) -> str:
        """What is left of the body."""
        return self.response.read().decode()

    def json(self) -> Any:
        return json.loads(self.text())

    def error(self) -> dict[str, Any]:
        """The error in a body, whose shape must be that of OpenAI's API."""
        body = self.json()
        assert body.keys() == {"error"}, body
        assert body["error"].keys() == {"message", "type", "param", "code"}, body
        assert isinstance(body["error"]["message"], str), body
        found: dict[str, Any] = body["error"]
        return found

    def events(self) -> Iterator[Any]:
        """The stream's events as they come; the last one of a whole stream is "[DONE]"."""
        assert self.status == 200, self.text()
        for line in self.response:
            if line.startswith(b"data: "):
                data = line.removeprefix(b"data: ").rstrip(b"\n")
                yield "[DONE]" if data == b"[DONE]" else json.loads(data)

    def take(self, count: int) -> list[Any]:
        """The next events."""
        events = self.events()
        return [next(events) for _ in range(count)]

    def leave(self) -> None:
        """Close the connection, whatever goes on."""
        self.sock.close()
        self._connection.close()
        if self._response is not None:
            self._response.close()


def body(prompt: str | list[int] = "It was a dark night", **fields: Any) -> dict[str, Any]:
    """A completion request to the tiny model."""
    return {"model": "tiny-qwen3", "prompt": prompt, "temperature": 0, "max_tokens": 8, **fields}


def ask(port: int, prompt: str | list[int] = "It was a dark night", **fields: Any) -> str:
    """The text of one short answer, which must come."""
    call = Call(port, body=body(prompt, **fields))
    assert call.status == 200, call.text()
    text: str = call.json()["choices"][0]["text"]
    return text


def until(condition: Callable[[], object], within: float, what: str) -> float:
    """Wait until condition holds, and return the seconds; AssertionError after within seconds."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < within, f"{what}: not within {within:g} s"
        time.sleep(0.02)
    return time.monotonic() - began


def metrics(port: int, headers: dict[str, str] | None = None) -> dict[str, float]:
    """The numbers that /metrics gives."""
    text = Call(port, "/metrics", headers=headers).text()
    pairs = re.findall(r"^(minisgl_\S+) (\S+)$", text, re.MULTILINE)
    return {name.removeprefix("minisgl_"): float(value) for name, value in pairs}


def runs(port: int, least: int = 1) -> bool:
    """Whether the scheduler has said that so many requests run."""
    return metrics(port)["running_requests"] >= least


def is_idle(port: int) -> bool:
    """Whether nothing runs or waits, and no request holds a slot of the pool."""
    now = metrics(port)
    return not (now["running_requests"] or now["waiting_requests"] or now["kv_used_ratio"])
