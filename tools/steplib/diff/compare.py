"""Two outlines held against each other: what is missing, extra, called or written otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steplib.diff.hunks import Hunk, hunks
from steplib.diff.outline import Item
from steplib.symbols import is_public

if TYPE_CHECKING:
    from steplib.differences import Difference

Kind = Literal["unwritten", "missing", "extra", "signature", "body"]


@dataclass(frozen=True)
class Change:
    """One difference. ours, theirs: both signatures. reasons: the listed differences that say why.

    note: what is to be said of it. later: the chapter that brings what is missing.
    """

    name: str
    kind: Kind
    ours: str = ""
    theirs: str = ""
    hunks: tuple[Hunk, ...] = ()
    note: str = ""
    reasons: tuple[Difference, ...] = ()
    later: int | None = None

    @property
    def is_aside(self) -> bool:
        """A private name that only one side has: how one's own helpers are cut is free."""
        is_private = not all(map(is_public, self.name.split(".")))
        return is_private and self.kind in ("missing", "extra") and not self.is_explained

    @property
    def is_explained(self) -> bool:
        return bool(self.reasons) or self.later is not None


@dataclass(frozen=True)
class FileChanges:
    """One file. fault: why it could not be compared. is_same: byte for byte."""

    path: str
    changes: tuple[Change, ...] = ()
    fault: str = ""
    is_same: bool = False

    def of(self, *kinds: Kind) -> list[Change]:
        """The changes of some kinds."""
        return [change for change in self.changes if change.kind in kinds]


@dataclass(frozen=True)
class Comparison:
    """All files, with the words for it. other: "reference" or "upstream". notes: a line each."""

    title: str
    other: Literal["reference", "upstream"]
    files: tuple[FileChanges, ...]
    notes: tuple[str, ...] = ()

    @property
    def whose(self) -> str:
        """The other side in a sentence."""
        return "the reference's" if self.other == "reference" else "upstream's"

    @property
    def place(self) -> str:
        """Where the other side's files are, in a sentence."""
        return "the reference" if self.other == "reference" else "upstream"

    @property
    def nothing(self) -> str:
        """What is said of a file that differs in no symbol."""
        if self.other == "reference":
            return "the same but for comments, docstrings and format"
        return "no difference"

    def groups(self, file: FileChanges) -> list[tuple[str, list[Change]]]:
        """What is not written yet; then what the book explains, and apart from it the rest."""
        unwritten = file.of("unwritten")
        written = [change for change in file.changes if change.kind != "unwritten"]
        listed = [change for change in written if change.is_explained]
        others = [change for change in written if not change.is_explained]
        if self.other == "reference":
            return [("", group) for group in (unwritten, written) if group]
        names = ("", "explained by the book", "not listed by the book")
        groups = (unwritten, listed, others)
        return [(name, group) for name, group in zip(names, groups, strict=True) if group]


def compare(mine: dict[str, Item], theirs: dict[str, Item]) -> Iterator[Change]:
    """In the order of the other's file, then what only `mine` has."""
    for name, item in theirs.items():
        if name not in mine:
            if item.owner not in theirs or item.owner in mine:  # else its class is missing
                yield Change(name, "missing", theirs=item.head)
            continue
        yield from pair(mine[name], item)
    for name, item in mine.items():
        if name not in theirs and (item.owner not in mine or item.owner in theirs):
            yield Change(name, "extra", ours=item.head)


def pair(ours: Item, theirs: Item) -> Iterator[Change]:
    """How one symbol differs."""
    if ours.head != theirs.head:
        yield Change(ours.name, "signature", ours.head, theirs.head)
    yield from bodies(ours, theirs)


def bodies(ours: Item, theirs: Item) -> Iterator[Change]:
    """The body's difference, or that it is not written yet."""
    if ours.is_unwritten:
        yield Change(ours.name, "unwritten")
    elif ours.core != theirs.core:
        found = hunks(ours.text, theirs.text, (ours.line, theirs.line))
        yield Change(ours.name, "body", hunks=found)
