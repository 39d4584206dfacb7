"""Single keys from a terminal, which is put back as it was on every way out."""

from __future__ import annotations

import os
import re
import signal
import sys
from types import FrameType
from typing import Any, TextIO

try:
    import termios
    import tty
except ImportError:  # not a system with such terminals: watching goes on without keys
    termios = tty = None  # type: ignore[assignment]

_ENDINGS = ("SIGTERM", "SIGHUP")
_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)  # of an arrow key, say


class Keys:
    """Within the block, keys come at once and unseen. fd: None where stdin is no terminal."""

    def __init__(self, source: TextIO | None = None) -> None:
        source = source or sys.stdin
        is_terminal = termios is not None and source is not None and source.isatty()
        self.fd: int | None = source.fileno() if is_terminal else None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Keys:
        for name in _ENDINGS:
            self._handle(name, _leave)
        if self.fd is not None:
            self._saved = termios.tcgetattr(self.fd)
            self._handle("SIGCONT", self._again)
            tty.setcbreak(self.fd)
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self._saved)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def read(self) -> str:
        """The keys that were pressed, in lower case; "q" when the terminal is gone."""
        assert self.fd is not None
        try:
            pressed = os.read(self.fd, 32).decode(errors="ignore")
        except OSError:
            return "q"
        return _SEQUENCE.sub("", pressed).lower() if pressed else "q"

    def _handle(self, name: str, handler: Any) -> None:
        number = getattr(signal, name, None)
        if number is not None:
            self._handlers[number] = signal.signal(number, handler)

    def _again(self, *_: object) -> None:
        """After Ctrl-Z and fg; a shell gives its own settings to what it brings back."""
        if self.fd is not None and os.tcgetpgrp(self.fd) == os.getpgrp():
            tty.setcbreak(self.fd)


def _leave(number: int, _: FrameType | None) -> None:
    """Leave through every `finally`, with the status that a shell gives for the signal."""
    raise SystemExit(128 + number)
