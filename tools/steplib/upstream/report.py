"""What moved upstream, as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, get_args

from steplib.diff.words import counted
from steplib.upstream.moved import Kind
from steplib.upstream.touched import Place, unlisted

if TYPE_CHECKING:
    from steplib.upstream.moved import Move, Moved

_WIDTH = 90
_LISTING = "tools/steplib/data/upstream_files.toml"


def lines(found: Moved, places: list[Place], notes: list[str]) -> Iterator[str]:
    """Commits, files and symbols, then the places of the book that name one of them."""
    old, new = (commit[:12] for commit in found.commits)
    if old == new and not found.moves:
        yield f"the checkout stands at the pinned commit {old}; nothing moved"
    else:
        yield f"from {old} (pinned) to {new}: {_counts(found)}"
    yield from (f"note: {note}" for note in notes)
    for path, moves in groupby(found.moves, key=lambda move: move.path):
        yield ""
        yield path
        yield from (f"  {line}" for line in _file(list(moves)))
    yield from _touched(places)
    yield from _unlisted(found)


def _counts(found: Moved) -> str:
    counts = [f"{len(found.of(kind))} {kind}" for kind in get_args(Kind) if found.of(kind)]
    return ", ".join(counts) or "nothing moved"


def _file(moves: list[Move]) -> Iterator[str]:
    """Each change; then what only stands on other lines, all together."""
    for move in moves:
        if move.kind != "moved":
            yield from _move(move)
    moved = [m for m in moves if m.kind == "moved"]
    told = ", ".join(f"{_name(m)} ({m.before} to {m.after})" for m in moved)
    for at, row in enumerate(textwrap.wrap(told, _WIDTH, break_on_hyphens=False)):
        yield f"{'moved' if not at else '':<8} {row}"


def _move(move: Move) -> Iterator[str]:
    yield f"{move.kind:<8} {_name(move)}"
    if move.kind == "changed":
        for word, text in (("before", move.before), ("now", move.after)):
            for at, row in enumerate(text.split("\n")):
                yield f"  {word if not at else '':<6} {row}"


def _name(move: Move) -> str:
    return move.symbol.partition("::")[2] or "the whole file"


def _touched(places: list[Place]) -> Iterator[str]:
    """Place by place; that only lines moved is mended by `docs`, so it is said last and short."""
    by_hand = [place for place in places if place.move.kind != "moved"]
    by_tool = sorted({place.where for place in places if place.move.kind == "moved"})
    if by_hand:
        yield ""
        yield f"{counted(len({p.where for p in by_hand}), 'place')} to look at:"
    for where, group in groupby(sorted(by_hand, key=lambda p: p.where), key=lambda p: p.where):
        yield f"  {where}"
        for symbol, named in groupby(group, key=lambda place: place.symbol):
            told = ", ".join(map(_what, named))
            yield from textwrap.wrap(
                f"{symbol}: {told}",
                _WIDTH,
                initial_indent="    ",
                subsequent_indent="      ",
                break_on_hyphens=False,
                break_long_words=False,
            )
    if by_tool:
        yield ""
        yield "links whose lines move (`docs` writes them after --write):"
        yield from (f"  {where}" for where in by_tool)


def _unlisted(found: Moved) -> Iterator[str]:
    """Files that the table of upstream's files must take in or leave out."""
    added, removed = unlisted(found)
    if added or removed:
        yield ""
        yield f"{_LISTING} must follow:"
        yield from (f"  add   {path}" for path in added)
        yield from (f"  drop  {path}" for path in removed)


def _what(place: Place) -> str:
    """`changed`, or of a member `__init__ changed`."""
    moved, named = (text.removeprefix("python/") for text in (place.move.symbol, place.symbol))
    if moved == named:
        return place.move.kind
    if "::" not in moved:
        return f"its file is {place.move.kind}"
    is_member = moved.startswith(f"{named}.")
    return f"{moved[len(named) + 1 :] if is_member else 'its class is'} {place.move.kind}"
