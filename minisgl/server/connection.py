"""A connection that must bring its request in time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def make_protocol(timeout: float) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol, but closing connections whose header takes longer than timeout."""

    class TimelyProtocol(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_deadline()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_deadline()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._start_deadline()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._end_deadline()
            super().on_headers_complete()

        def _start_deadline(self) -> None:
            self._end_deadline()
            self._deadline = self.loop.call_later(timeout, self._close)

        def _end_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _close(self) -> None:
            transport: Any = self.transport
            if not transport.is_closing():
                transport.close()

    return TimelyProtocol
