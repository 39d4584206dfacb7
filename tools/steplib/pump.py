"""Reads a child's pipes side by side, so that no full pipe can hold it up."""

from __future__ import annotations

import os
import selectors
from contextlib import suppress

_OUTPUT_LIMIT = 1 << 20


class Pump:
    """Reads a child's three pipes side by side; keeps what was printed and parses records."""

    def __init__(self, records: int, stdout: int, stderr: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.taken = 0  # bytes of all three, also of what was not kept
        self.raw = {"records": bytearray(), "stdout": bytearray(), "stderr": bytearray()}
        pipes = (("records", records), ("stdout", stdout), ("stderr", stderr))
        for name, fd in pipes:
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ, name)

    @property
    def is_open(self) -> bool:
        return bool(self.selector.get_map())

    def read(self, timeout: float) -> bytes:
        """Wait for data; return the complete record lines that have come."""
        has_line = False
        for key, _ in self.selector.select(max(0.0, timeout)):
            with suppress(BlockingIOError):
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    self.selector.unregister(key.fd)
                self.taken += len(piece)
                buffer = self.raw[key.data]
                if key.data == "records" or len(buffer) < _OUTPUT_LIMIT:
                    buffer += piece
                has_line |= key.data == "records" and b"\n" in piece
        if not has_line:  # a flood without lines is not looked through again for each piece
            return b""
        lines, newline, rest = self.raw["records"].rpartition(b"\n")
        self.raw["records"] = bytearray(rest)
        return bytes(lines + newline)

    def take_text(self) -> tuple[str, str]:
        """What was printed since the last call: stdout and stderr."""
        while self.is_open and any(self._take(key) for key, _ in self.selector.select(0)):
            pass
        out, err = (bytes(self.raw[k]).decode(errors="replace") for k in ("stdout", "stderr"))
        self.raw["stdout"], self.raw["stderr"] = bytearray(), bytearray()
        return out, err

    def _take(self, key: selectors.SelectorKey) -> bool:
        if key.data == "records":
            return False
        piece = b""
        with suppress(BlockingIOError):
            piece = os.read(key.fd, 1 << 16)
        self.taken += len(piece)
        if len(self.raw[key.data]) < _OUTPUT_LIMIT:
            self.raw[key.data] += piece
        return bool(piece)
