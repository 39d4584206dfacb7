"""A unified diff as rows with the line numbers of both files, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

CONTEXT = 3
Mark = Literal[" ", "-", "+"]


@dataclass(frozen=True)
class Row:
    """One line. ours, theirs: its number in either file, None where it is not."""

    mark: Mark
    text: str
    ours: int | None = None
    theirs: int | None = None


Hunk = tuple[Row, ...]


def hunks(ours: str, theirs: str, first: tuple[int, int] = (1, 1)) -> tuple[Hunk, ...]:
    """What changes from `ours` to `theirs`. first: the number of the first line of either."""
    old, new = ours.split("\n") if ours else [], theirs.split("\n") if theirs else []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        tuple(row for step in group for row in _rows(step, (old, new), first))
        for group in matcher.get_grouped_opcodes(CONTEXT)
    )


def _rows(
    step: tuple[str, int, int, int, int], texts: tuple[list[str], list[str]], first: tuple[int, int]
) -> Iterator[Row]:
    tag, old, old_end, new, new_end = step
    if tag == "equal":
        for at in range(old_end - old):
            yield Row(" ", texts[0][old + at], first[0] + old + at, first[1] + new + at)
        return
    for at in range(old, old_end):
        yield Row("-", texts[0][at], ours=first[0] + at)
    for at in range(new, new_end):
        yield Row("+", texts[1][at], theirs=first[1] + at)
