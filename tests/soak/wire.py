"""A client for very many requests, on asyncio streams: it hardly costs the server its cores."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any


class Wrong(Exception):
    """Something was answered otherwise than it must be; the message says what and how."""


@dataclass
class Reply:
    """All that came for one request. finishes: how often each choice was said to be at its end."""

    status: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    finishes: dict[int, list[str]] = field(default_factory=dict)
    done: int = 0
    error: dict[str, Any] | None = None


async def ask(port: int, path: str, body: bytes, leave_after: float | None = None) -> Reply | None:
    """Send a request and return the whole reply, or close after leave_after seconds: None."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        if leave_after is None:
            return _read(await reader.read(-1))
        await asyncio.sleep(leave_after)
        writer.transport.abort()
        return None
    finally:
        writer.close()


def _read(data: bytes) -> Reply:
    head, _, rest = data.partition(b"\r\n\r\n")
    try:
        reply = Reply(int(head.split()[1]))
    except (IndexError, ValueError):
        raise Wrong(f"an answer begins with {data[:80]!r}") from None
    if b"chunked" in head.lower():
        rest = _unchunked(rest)
    if b"text/event-stream" not in head.lower():
        _take(reply, json.loads(rest))
        return reply
    for event in rest.decode().split("\n\n")[:-1]:
        if reply.done:
            raise Wrong(f"behind [DONE] comes {event!r}")
        if event == "data: [DONE]":
            reply.done += 1
        else:
            _take(reply, json.loads(event.removeprefix("data: ")))
    return reply


def _take(reply: Reply, body: dict[str, Any]) -> None:
    reply.error = body.get("error", reply.error)
    for choice in body.get("choices", ()):
        index = choice["index"]
        if reply.finishes.get(index):
            raise Wrong(f"choice {index} goes on behind its end: {choice}")
        reply.texts[index] = reply.texts.get(index, "") + choice["text"]
        if choice["finish_reason"] is not None:
            reply.finishes.setdefault(index, []).append(choice["finish_reason"])


def _unchunked(data: bytes) -> bytes:
    parts = []
    while data:
        size, _, rest = data.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return b"".join(parts)
        parts.append(rest[:length])
        data = rest[length + 2 :]
    raise Wrong("a stream is cut off")
