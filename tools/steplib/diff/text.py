"""A comparison as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator

from steplib.diff.compare import Change, Comparison, FileChanges
from steplib.diff.hunks import Hunk
from steplib.diff.words import LABELS, asides, place, summary

_COLORS = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m", "#": "\x1b[1m"}
_WIDTH, _LONGEST = 16, 94
Paint = Callable[[str, str], str]


def colored(text: str, mark: str) -> str:
    """`text` in the color for its mark."""
    return f"{_COLORS[mark]}{text}\x1b[0m" if mark in _COLORS else text


def plain(text: str, mark: str) -> str:
    """`text` as it is."""
    return text


def lines(found: Comparison, paint: Paint = plain) -> Iterator[str]:
    """paint: gives a line the color of its mark, or leaves it."""
    yield paint(found.title, "#")
    yield summary(found)
    yield from (f"note: {note}" for note in found.notes)
    if any(change.hunks for file in found.files for change in file.changes):
        yield f"In the diffs below, - is yours and + is {found.whose}."
    for file in found.files:
        if not file.is_same:
            yield ""
            yield paint(file.path, "#")
            yield from indented(_file(found, file, paint))


def indented(rows: Iterable[str]) -> Iterator[str]:
    return (textwrap.indent(row, "  ") for row in rows)


def _file(found: Comparison, file: FileChanges, paint: Paint) -> Iterator[str]:
    if file.fault:
        yield f"not compared: {file.fault}"
        return
    if not file.changes:
        yield found.nothing
        return
    for name, group in found.groups(file):
        rows = _changes(found, group, paint)
        if name:
            yield f"{name}:"
        yield from indented(rows) if name else rows


def _changes(found: Comparison, changes: list[Change], paint: Paint) -> Iterator[str]:
    """Names first, diffs last; private names are told apart, for they are one's own affair."""
    for label, names in asides(changes):
        yield from _beside(label, names)
    for kind in ("missing", "extra"):
        for change in changes:
            if change.kind == kind and not change.is_aside:
                yield from _named(change)
    for change in changes:
        if change.kind == "signature":
            yield from _signature(found, change)
    for change in changes:
        if change.kind == "body":
            yield from _body(change, paint)


def _named(change: Change) -> Iterator[str]:
    yield from _beside(LABELS[change.kind], change.name or "the whole file")
    yield from _reasons(change)


def _signature(found: Comparison, change: Change) -> Iterator[str]:
    yield from _beside(LABELS["signature"], change.name)
    for whose, text in (("yours", change.ours), (found.other, change.theirs)):
        for at, row in enumerate(text.split("\n") if text else ()):
            yield f"  {whose if not at else '':<{_WIDTH - 2}} {row}"
    if change.note:
        yield from _beside("  what differs", change.note)
    yield from _reasons(change)


def _beside(label: str, text: str) -> Iterator[str]:
    """A label, and beside it a text that may need several lines."""
    rows = textwrap.wrap(text, _LONGEST - _WIDTH, break_on_hyphens=False)
    for at, row in enumerate(rows):
        yield f"{label if not at else '':<{_WIDTH}} {row}"


def _body(change: Change, paint: Paint) -> Iterator[str]:
    yield from _beside(LABELS["body"], change.name)
    yield from _reasons(change)
    for hunk in change.hunks:
        yield from indented(_hunk(hunk, paint))


def _hunk(hunk: Hunk, paint: Paint) -> Iterator[str]:
    yield paint(f"@@ {place(hunk)} @@", "@")
    for row in hunk:
        yield paint(f"{row.mark} {row.text}".rstrip(), row.mark)


def _reasons(change: Change) -> Iterator[str]:
    for reason in change.reasons:
        yield from _beside(f"  {LABELS[reason.kind]}", reason.text)
    if change.later is not None:
        yield from _beside("  later", f"chapter {change.later:02d} brings it")
