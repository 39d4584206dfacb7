"""What moved upstream, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, get_args

from steplib.diff.words import counted
from steplib.upstream.moved import Kind
from steplib.upstream.touched import Place, unlisted

if TYPE_CHECKING:
    from steplib.upstream.moved import Move, Moved

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
        yield from (f"  {line}" for move in moves for line in _move(move))
    yield from _touched(places)
    for path in unlisted(found):
        yield f"{_LISTING}: bring it up to date for {path}"


def _counts(found: Moved) -> str:
    counts = [f"{len(found.of(kind))} {kind}" for kind in get_args(Kind) if found.of(kind)]
    return ", ".join(counts) or "nothing moved"


def _move(move: Move) -> Iterator[str]:
    name = move.symbol.partition("::")[2]
    if move.kind == "moved":
        yield f"moved    {name}: {move.before}, now {move.after.removeprefix('lines ')}"
        return
    yield f"{move.kind:<8} {name or 'the whole file'}"
    if move.kind == "changed":
        for word, text in (("before", move.before), ("now", move.after)):
            for at, row in enumerate(text.split("\n")):
                yield f"  {word if not at else '':<6} {row}"


def _touched(places: list[Place]) -> Iterator[str]:
    """Place by place; that only lines moved is mended by `docs`, so it is said last and short."""
    by_hand = [place for place in places if place.move.kind != "moved"]
    by_tool = sorted({place.where for place in places if place.move.kind == "moved"})
    if by_hand:
        yield ""
        yield f"{counted(len({p.where for p in by_hand}), 'place')} to look at:"
    for where, group in groupby(sorted(by_hand, key=lambda p: p.where), key=lambda p: p.where):
        yield f"  {where}"
        for place in group:
            yield f"    {place.symbol}: {_what(place)}"
    if by_tool:
        yield ""
        yield "links whose lines move (`docs` writes them after --write):"
        yield from (f"  {where}" for where in by_tool)


def _what(place: Place) -> str:
    moved = place.move.symbol.removeprefix("python/")
    is_same = moved == place.symbol.removeprefix("python/")
    return place.move.kind if is_same else f"{moved.rpartition('::')[2]} {place.move.kind}"
