"""What stands between HTTP and the routes: limits, the key, and clients that go away."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response

from .errors import ApiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from .args import ServerArgs

T = TypeVar("T")

OPEN_PATHS = frozenset(("/health",))
"""Paths that need no key: whoever restarts the server must be able to ask."""


LINGER = 1.0
"""Seconds for which the rest of a body is still read that is refused."""


class ClientGone(Exception):
    """The client has closed its connection; nobody reads what would be answered."""


def error_response(error: ApiError) -> Response:
    """Return an error as a response."""
    body = json.dumps(error.body()).encode()
    return Response(body, error.status, error.headers, media_type="application/json")


async def while_there(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return what work returns; raises ClientGone, with work cancelled, if the client goes first.

    receive must have nothing left of the request's body.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_goes(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _goes(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """A response of server-sent events, for as long as its client reads them.

    events: the bytes to send. context is left when the stream ends, however it ends. send_timeout:
    seconds that a client may take for a piece before it counts as gone.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncIterator[bytes],
        context: AbstractAsyncContextManager[Any],
        send_timeout: float,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._events, self._context, self._timeout = events, context, send_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_there(receive, self._send_all(send))
        except (ClientGone, TimeoutError):
            return
        finally:
            await self._context.__aexit__(None, None, None)

    async def _send_all(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await self._put(send, head)
        async for event in self._events:
            await self._put(send, {"type": "http.response.body", "body": event, "more_body": True})
        await self._put(send, {"type": "http.response.body", "body": b""})

    async def _put(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._timeout):
            await send(message)


async def _refuse(error: ApiError, receive: Receive, send: Send) -> None:
    """Send an error while the body may still be coming, and end the connection.

    The rest of the body is read for a short time: a connection that is closed with unread bytes is
    reset, and then a client that is still sending may never read the error.
    """
    error.headers["Connection"] = "close"
    response = error_response(error)
    await send(
        {"type": "http.response.start", "status": error.status, "headers": response.raw_headers}
    )
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b""})


class Gate:
    """Lets a request through to the app once its key, its size and its pace are as they must be."""

    def __init__(self, app: ASGIApp, config: ServerArgs) -> None:
        self.app, self.config = app, config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            self._check_key(scope)
            body = await self._body(scope, receive)
        except ApiError as error:
            return await _refuse(error, receive, send)
        except ClientGone:
            return None
        first: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def replay() -> Message:
            nonlocal first
            message, first = first, None
            return message or await receive()

        with suppress(Exception):  # the app has logged it; uvicorn would log its message too
            await self.app(scope, replay, send)
        return None

    def _check_key(self, scope: Scope) -> None:
        if not self.config.api_key or scope["path"] in OPEN_PATHS:
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = given.partition(b" ")
        is_bearer = scheme.lower() == b"bearer"
        is_right = hmac.compare_digest(key.strip(), self.config.api_key.encode())
        if not (is_bearer and is_right):
            raise ApiError(
                401,
                "this server needs a key: send it as Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self.config.max_body_bytes
        said = f"the body is larger than {limit} bytes"
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > limit:
            raise ApiError(413, said)
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.config.request_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise ApiError(413, said)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise ApiError(
                408, f"the body did not arrive within {self.config.request_timeout:g} s"
            ) from None
