"""A reader's files held against upstream: its interface, and its bodies where there is a checkout.

What counts as another interface is what `check` holds the book itself to: annotations, private
names, and parameters of one's own with a default are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import catalogue, differences
from steplib.comparison import Deviation, deviations
from steplib.diff.compare import Change, Comparison, FileChanges, Kind, bodies
from steplib.diff.heads import heads
from steplib.diff.outline import IMPORTS, Item, outline
from steplib.diff.reference import fault_of, in_scope
from steplib.symbols import symbols
from steplib.tree import Tree
from steplib.upstream import clone
from steplib.upstream.checkout import Checkout

if TYPE_CHECKING:
    from steplib.book import Chapter
    from steplib.catalogue import Catalogue
    from steplib.mine import MyBook

_KINDS: dict[str, Kind] = {"changed": "signature", "missing": "missing", "added": "extra"}
_PREFIX = "python/"


def against_upstream(
    book: MyBook, chapter: Chapter, is_all: bool, path: Path | None = None
) -> Comparison:
    """path: a checkout; without one the pinned commit is fetched, or the catalogue is enough."""
    notes = []
    found = Checkout.at(path) if path else clone.pinned(catalogue.load(), book.root)
    if isinstance(found, str):
        notes.append(f"{found} So names and signatures are compared, and no bodies.")
        side = _Side(book, catalogue.load(), {})
    else:
        side = _Side(book, found.catalogue(), found.sources)
        notes += _commit(found)
    files = tuple(side.file(file.path) for file in in_scope(book, chapter, is_all))
    whose = f"mini-sglang at {side.upstream.commit[:12]}"
    title = f"Chapter {chapter.number:02d}, {chapter.title}: your files and {whose}"
    return Comparison(title, "upstream", files, tuple(notes))


def _commit(found: Checkout) -> Iterator[str]:
    pin = catalogue.load().commit
    if found.commit != pin:
        yield f"the book is written for commit {pin[:12]}; its reasons may not fit this one"
    if found.changed:
        yield "the checkout has changes that are not committed"
    yield "the book's bodies are written anew; it lists those that behave otherwise"


@dataclass(frozen=True)
class _Side:
    """Both sides of the comparison. sources: upstream's texts by its paths; may be empty."""

    book: MyBook
    upstream: Catalogue
    sources: dict[str, str]

    @cached_property
    def listing(self) -> differences.Listing:
        return differences.load()

    @cached_property
    def deviations(self) -> list[Deviation]:
        """Of all files that can be read, for a class may extend one of another file."""
        files = {p: f for p, f in self.book.mine.items() if not fault_of(self.book, p)}
        return deviations(Tree(self.book.newest, files), self.upstream)

    def file(self, path: str) -> FileChanges:
        """One file, by our path."""
        if fault := fault_of(self.book, path):
            return FileChanges(path, fault=fault)
        if not path.endswith(".py"):
            return FileChanges(path, fault="it is no Python file.")
        text = self.book.mine[path].text()
        mine = outline(text)
        source = self.sources.get(_PREFIX + path)
        theirs = outline(source) if source is not None else {}
        shown = {name: item.head for name, item in theirs.items()}
        shown = shown or heads(self.upstream.files.get(path, {"symbols": []}))
        found = [*self._interface(path, mine, shown), *_bodies(mine, theirs)]
        changes = tuple(self._explained(path, change) for change in found)
        return FileChanges(path, changes, is_same=text == source)

    def _interface(self, path: str, mine: dict[str, Item], theirs: dict[str, str]) -> list[Change]:
        found = [d for d in self.deviations if d.symbol.partition("::")[0] == path]
        return [_change(deviation, mine, theirs) for deviation in found]

    def _explained(self, path: str, change: Change) -> Change:
        """With what the listing says of the symbol; of a body, what it says of its class too."""
        if change.kind == "unwritten":
            return change
        names = {change.name}
        if change.kind == "body":
            names.add(change.name.rpartition(".")[0])
        wanted = {f"{path}::{name}" for name in names if name} or {path}
        reasons = tuple(
            entry
            for entry in self.listing.difference
            if entry.symbol in wanted and (change.kind == "body" or not entry.behavior)
        )
        later = self._later(path, change.name) if change.kind == "missing" else None
        return replace(change, reasons=reasons, later=later)

    def _later(self, path: str, name: str) -> int | None:
        """The later chapter that brings the symbol."""
        for form in self.book.forms(path):
            is_later = form.chapter > self.book.number
            if is_later and name in symbols(form.source.read_text(encoding="utf-8")):
                return form.chapter
        return self.listing.promised(f"{path}::{name}")


def _change(deviation: Deviation, mine: dict[str, Item], theirs: dict[str, str]) -> Change:
    name = deviation.symbol.partition("::")[2]
    ours = mine[name].head if name in mine else ""
    kind = _KINDS[deviation.kind]
    return Change(name, kind, ours, theirs.get(name, ""), note=deviation.message)


def _bodies(mine: dict[str, Item], theirs: dict[str, Item]) -> Iterator[Change]:
    """Bodies of what both have; a stub is told apart."""
    for name, item in mine.items():
        if name in theirs and name != IMPORTS:
            yield from bodies(item, theirs[name])
        elif item.is_unwritten:
            yield Change(name, "unwritten")
