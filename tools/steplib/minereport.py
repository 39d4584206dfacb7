"""The report on a reader's files: which modules ran, and the first failure."""

from __future__ import annotations

from collections.abc import Iterator

from steplib import report
from steplib.facts import Report
from steplib.mine import MyBook


def lines(book: MyBook, shown: str, found: Report) -> Iterator[str]:
    """shown: the folder as it was given."""
    loaded: dict[str, str] = {}
    for chapter in found.chapters:
        for result in chapter.results:
            loaded |= dict(result.data.get("modules", {}).values())
    yield f"modules imported from {shown}:" if loaded else f"no module of {shown} was imported"
    yield from _modules(book, loaded)
    yield ""
    yield from report.lines(found)
    if found.is_passed:
        yield f"next  {_next(book, shown)}"


def _modules(book: MyBook, loaded: dict[str, str]) -> Iterator[str]:
    """One line a module: its path, the beginning of its hash, and whose it is."""
    width = max(map(len, loaded), default=0)
    for path, digest in sorted(loaded.items()):
        if path not in book.mine or book.mine[path].sha256 != digest:
            whose = "not from your folder"
        else:
            whose = "yours" if book.is_mine(path) else "as the book has it"
        yield f"  {path:<{width}}  {digest[:16]}  {whose}"


def _next(book: MyBook, shown: str) -> str:
    """The chapter after this one, where it is written."""
    later = [chapter.number for chapter in book.chapters if chapter.number > book.number]
    if not later:
        return "python tools/steps.py list"
    return f"python tools/steps.py start {later[0]:02d} --into {shown}"
