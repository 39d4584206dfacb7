"""The report on a reader's files: the verdict, and on which modules it was reached."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import PurePosixPath

from steplib import report
from steplib.facts import Report
from steplib.mine import MyBook

FOREIGN, YOURS, THE_BOOKS = "not from your folder", "yours", "as the book has it"
_DIGITS, _WIDTH = 8, 100  # of each hash; of a line
_GLUE = "\xa0"  # textwrap breaks no line at it


def lines(book: MyBook, shown: str, found: Report) -> Iterator[str]:
    """shown: the folder as it was given."""
    yield from report.lines(found)
    if found.is_passed:
        yield f"next  {_next(book, shown)}"
    loaded: dict[str, str] = {}
    for chapter in found.chapters:
        for result in chapter.results:
            loaded |= dict(result.data.get("modules", {}).values())
    yield ""
    yield from _modules(book, shown, loaded)


def _modules(book: MyBook, shown: str, loaded: dict[str, str]) -> Iterator[str]:
    """Each module's path and the beginning of its SHA-256, by whose it is and by folder."""
    if not loaded:
        yield f"no module of {shown} was imported"
        return
    groups: dict[str, dict[str, list[str]]] = {FOREIGN: {}, YOURS: {}, THE_BOOKS: {}}
    for path, digest in sorted(loaded.items()):
        place = PurePosixPath(path)
        folders = groups[_whose(book, path, digest)]
        folders.setdefault(f"{place.parent}/", []).append(f"{place.name} {digest[:_DIGITS]}")
    noun = "module was" if len(loaded) == 1 else "modules were"
    yield f"{len(loaded)} {noun} imported from {shown}; behind each, how its SHA-256 begins"
    for whose, folders in groups.items():
        if folders:
            yield f"{whose}:"
        for folder, names in folders.items():
            yield from _wrapped(f"  {folder}  ", names)


def _whose(book: MyBook, path: str, digest: str) -> str:
    if path not in book.mine or book.mine[path].sha256 != digest:
        return FOREIGN
    return YOURS if book.is_mine(path) else THE_BOOKS


def _wrapped(head: str, names: list[str]) -> list[str]:
    """The names behind the head, in as many lines as they need; none is parted from its hash."""
    glued = "  ".join(name.replace(" ", _GLUE) for name in names)
    told = textwrap.wrap(
        glued, _WIDTH, initial_indent=head, subsequent_indent=" " * 6,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_GLUE, " ") for line in told]


def _next(book: MyBook, shown: str) -> str:
    """The chapter after this one, where it is written."""
    later = [chapter.number for chapter in book.chapters if chapter.number > book.number]
    if not later:
        return "python tools/steps.py list"
    return f"python tools/steps.py start {later[0]:02d} --into {shown}"
