"""A file's text with the places of its nodes, and changes of it that keep every line's number."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

_COMMENT = re.compile(rb"#[^\n]*")


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` of a file become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Source:
    """A file of a tree. Places are counted in bytes of UTF-8, as ast does."""

    path: str
    text: str

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(row) for row in self.data.splitlines(keepends=True))]

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def line(self, place: int) -> int:
        """The number of the line that holds this byte, from 1."""
        return self.data.count(b"\n", 0, place) + 1

    def column(self, place: int) -> int:
        """The column of this byte, from 1."""
        return place - self._starts[self.line(place) - 1] + 1

    def over(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """The node becomes `text`, on as many lines as it had."""
        start, end = self.start(node), self.end(node)
        missing = self.data.count(b"\n", start, end) - text.count("\n")
        return Edit(start, end, text + "\n" * missing)

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The node as it is written."""
        return self.data[self.start(node) : self.end(node)].decode()

    def word(self, pattern: str, start: int, end: int, text: str) -> Edit | None:
        """The first match of `pattern` between two places, outside of comments, becomes `text`."""
        between = _COMMENT.sub(lambda m: b" " * len(m[0]), self.data[start:end])
        found = re.search(pattern.encode(), between)
        return Edit(start + found.start(), start + found.end(), text) if found else None

    def edited(self, edits: tuple[Edit, ...]) -> str:
        """The whole text after the edits, which don't overlap."""
        data = self.data
        for edit in sorted(edits, key=lambda e: -e.start):
            data = data[: edit.start] + edit.text.encode() + data[edit.end :]
        return data.decode()
