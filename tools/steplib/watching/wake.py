"""Ends a wait of the loop from another thread."""

from __future__ import annotations

import os
from contextlib import suppress


class Wake:
    """A pipe that ends a wait from any thread."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)

    def __call__(self) -> None:
        with suppress(BlockingIOError, OSError):
            os.write(self._write, b"x")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.fd, 1 << 16)
