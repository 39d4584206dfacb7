"""A client that costs next to nothing: it shares its cores with the server that it measures.

Bytes are noted as they come, with the time. What they say is read when all streams are over.
"""

from __future__ import annotations

import io
import json
import re
import selectors
import socket
import time
from collections.abc import Sequence
from http.client import HTTPResponse
from typing import Any, cast

_TEXT = re.compile(rb'"(?:text|content)": ?"[^"]')
_SIZE = 1 << 16


class Stream:
    """One streamed answer. sent, came: seconds; pieces: what was read at each of came."""

    def __init__(self, port: int, path: str, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        self._request = head.encode() + raw
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.sent, self.came = 0.0, list[float]()
        self.pieces: list[bytes] = []

    def send(self) -> None:
        """Send the whole request; from now on the answer may come."""
        self.sent = time.perf_counter()
        self.socket.sendall(self._request)
        self.socket.setblocking(False)

    def take(self) -> bool:
        """Note what has come; False at the stream's end."""
        piece = self.socket.recv(_SIZE)
        self.came.append(time.perf_counter())
        self.pieces.append(piece)
        return bool(piece)

    def token_times(self) -> list[float]:
        """When text came: the first one makes TTFT, their gaps ITL."""
        pairs = zip(self.came, self.pieces, strict=True)
        return [came for came, piece in pairs if _TEXT.search(piece)]

    def completion_tokens(self) -> int:
        """The server's own count; RuntimeError when the answer isn't whole."""
        response = HTTPResponse(cast(socket.socket, _Replay(b"".join(self.pieces))))
        response.begin()
        body = response.read().decode()
        if response.status != 200 or not body.rstrip().endswith("data: [DONE]"):
            raise RuntimeError(f"HTTP {response.status}, and then: {body[-300:]}")
        events = [line for line in body.splitlines() if line.startswith("data: {")]
        return int(json.loads(events[-1].removeprefix("data: "))["usage"]["completion_tokens"])


class _Replay:
    """What HTTPResponse reads in place of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def stream_all(
    port: int, path: str, bodies: Sequence[dict[str, Any]]
) -> tuple[list[Stream], float]:
    """Send all requests at once; return their streams, and the seconds until the last one's end.

    Connections are made before the clock starts.
    """
    streams = [Stream(port, path, body) for body in bodies]
    with selectors.DefaultSelector() as waiting:
        for stream in streams:
            waiting.register(stream.socket, selectors.EVENT_READ, stream)
        start = time.perf_counter()
        for stream in streams:
            stream.send()
        while waiting.get_map():
            for key, _ in waiting.select():
                if not key.data.take():
                    waiting.unregister(key.fileobj)
                    key.data.socket.close()
        return streams, time.perf_counter() - start
