"""The places of the book that speak of what moved: pages, and the listings beside the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steplib import catalogue, differences, markers
from steplib.paths import shown

if TYPE_CHECKING:
    from steplib.book import Book
    from steplib.upstream.moved import Move, Moved

_BOX = re.compile(r'^!!! difference "`(?P<symbol>[^`]+)`', re.MULTILINE)
_EXERCISE = re.compile(r'^upstream = "(?P<symbol>[^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A place, the symbol that it names, and what became of that."""

    where: str
    symbol: str
    move: Move


def places(book: Book, found: Moved) -> list[Place]:
    """Every place that names a symbol that moved, its class, or its file.

    That only lines moved matters to links alone.
    """
    named = [*_links(book), *_boxes(book), *_exercises(book), *_listings()]
    linked = {where for where, _ in _links(book)}
    return list(
        dict.fromkeys(
            Place(where, symbol, move)
            for where, symbol in named
            for move in found.moves
            if _concerns(move, symbol) and (move.kind != "moved" or where in linked)
        )
    )


def _concerns(move: Move, symbol: str) -> bool:
    """Whether a move of one symbol touches what is said of another.

    What is said of a member is touched when its class or file comes or goes. What is said of a
    class is touched by its members too, but for lines that move with the class.
    """
    ours, theirs = _ours(move.symbol), _ours(symbol)
    if ours == theirs:
        return True
    if theirs.startswith((f"{ours}::", f"{ours}.")):
        return move.kind in ("added", "removed")
    is_member = "::" in theirs and ours.startswith(f"{theirs}.")
    return is_member and move.kind != "moved"


def _links(book: Book) -> Iterator[tuple[str, str]]:
    """The symbols that pages link to, with their lines."""
    for where, block in _blocks(book, "upstream"):
        yield from ((where, symbol) for symbol in block.args)


def _boxes(book: Book) -> Iterator[tuple[str, str]]:
    """The symbols whose difference a page tells."""
    for where, block in _blocks(book, "differences"):
        yield from ((where, box["symbol"]) for box in _BOX.finditer(block.content))


def _blocks(book: Book, kind: str) -> Iterator[tuple[str, markers.Block]]:
    for page in sorted((book.root / "docs").rglob("*.md")):
        for block in markers.blocks(page.read_text(encoding="utf-8")):
            if block.kind == kind:
                yield f"{shown(page, book.root)}:{block.line}", block


def _exercises(book: Book) -> Iterator[tuple[str, str]]:
    for file in sorted((book.root / "steps").glob("*/exercises/*/exercise.toml")):
        for found in _EXERCISE.finditer(file.read_text(encoding="utf-8")):
            yield shown(file, book.root), found["symbol"]


def _listings() -> Iterator[tuple[str, str]]:
    """What must follow when a file comes or goes, or a difference is one no more."""
    for entry in differences.load().difference:
        yield "tools/steplib/data/differences.toml", entry.symbol


def unlisted(found: Moved) -> tuple[list[str], list[str]]:
    """Files that data/upstream_files.toml does not know, and those that it still has."""
    listed = {file.path for file in catalogue.upstream_files()}
    added = [move.symbol for move in found.of("added") if "::" not in move.symbol]
    removed = [move.symbol for move in found.of("removed") if "::" not in move.symbol]
    return [p for p in added if p not in listed], [p for p in removed if p in listed]


def _ours(symbol: str) -> str:
    return symbol.removeprefix("python/")
