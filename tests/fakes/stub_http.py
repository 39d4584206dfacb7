"""Requests to the API in this process: the app behind its gate, and clients of every manner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from stub_frontend import Tokenizers, script, stub_frontend


class Call:
    """One request and its response.

    parts: the body, in pieces; more: there is no end of it. leave() closes the client's end.
    takes: how many messages of the response the client takes before it stalls. messages: what came.
    """

    def __init__(
        self,
        app: Any,
        path: str,
        body: Any = None,
        *,
        method: str = "",
        headers: dict[str, str] | None = None,
        parts: list[bytes] | None = None,
        more: bool = False,
        takes: int | None = None,
    ) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.parts = [data] if parts is None else parts
        self.more, self.takes, self.app = more, takes, app
        given = {"content-type": "application/json", **(headers or {})}
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method or ("GET" if body is None and parts is None else "POST"),
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self.messages: list[dict[str, Any]] = []
        self._left, self._sent = asyncio.Event(), 0
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> Call:
        await self.app(self.scope, self._receive, self._send)
        return self

    async def _receive(self) -> dict[str, Any]:
        if self._sent < len(self.parts):
            self._sent += 1
            more = self.more or self._sent < len(self.parts)
            return {"type": "http.request", "body": self.parts[self._sent - 1], "more_body": more}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self.takes is not None and len(self.messages) >= self.takes:
            await asyncio.Event().wait()
        self.messages.append(message)
        await asyncio.sleep(0)

    def leave(self) -> None:
        """Close the client's end."""
        self._left.set()

    async def whole(self) -> Call:
        """Wait for the end of the response."""
        return await self.task

    @property
    def status(self) -> int | None:
        return self.messages[0]["status"] if self.messages else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The events of a stream; the text of those that are not JSON."""
        found = []
        for event in self.body.decode().split("\n\n")[:-1]:
            data = event.removeprefix("data: ")
            found.append(json.loads(data) if data.startswith("{") else data)
        return found


@asynccontextmanager
async def stub_api(
    answers: Callable[[Any], list[Any]] = script, **settings: Any
) -> AsyncIterator[tuple[Callable[..., Call], Any, Tokenizers]]:
    """What makes a Call, the FrontendManager, and the queues behind it."""
    from minisgl.server.api_server import app, set_global_state
    from minisgl.server.asgi import Gate

    async with stub_frontend(answers, **settings) as (state, queues):
        set_global_state(state)
        gate = Gate(app, state.config)
        calls: list[Call] = []

        def call(path: str, body: Any = None, **more: Any) -> Call:
            calls.append(Call(gate, path, body, **more))
            return calls[-1]

        try:
            yield call, state, queues
        finally:
            for each in calls:
                each.task.cancel()
            await asyncio.gather(*(each.task for each in calls), return_exceptions=True)


def chat(content: str, **more: Any) -> dict[str, Any]:
    """The body of a chat of one message."""
    return {"model": "no/model", "messages": [{"role": "user", "content": content}], **more}


def text(prompt: Any, **more: Any) -> dict[str, Any]:
    """The body of a completion."""
    return {"model": "no/model", "prompt": prompt, **more}
