"""A connection that must bring its header in time, and no more than a header can need."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEADER = 64 << 10
"""Bytes of a header that may come without its end; a body has a limit of its own."""


def make_protocol(timeout: float) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol, but closing connections whose header is too slow or too long.

    timeout: seconds for a header to arrive.
    """

    class TimelyProtocol(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None
        _received = 0  # bytes of a header whose end has not come

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._start_deadline()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_deadline()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self._deadline
            super().data_received(data)
            is_same = before is not None and self._deadline is before
            # What brings a header's begin may be the end of a body too, so that it is not counted.
            self._received = self._received + len(data) if is_same else 0
            if self._received > LONGEST_HEADER:
                self._close()

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
