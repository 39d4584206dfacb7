"""`contracts NN [PATH ...]`: the files that the chapter's reader writes, as stubs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steplib.blocks.base import BlockError, Request, fenced
from steplib.errors import did_you_mean
from steplib.stubs import Stub

if TYPE_CHECKING:
    from steplib.book import Book, TreeFile


def render(request: Request) -> str:
    """One code block a file; of a modified file only what is new or different."""
    chapter = request.chapter()
    files = request.book.tree(chapter.number).files
    written = [*chapter.manifest.creates, *chapter.manifest.modifies]
    for path in request.args[1:]:
        if path not in written:
            near = did_you_mean(path, written)
            raise BlockError(f"The reader of chapter {chapter.number:02d} writes no {path}.{near}")
    parts = []
    for path in request.args[1:] or written:
        parts.append(_contract(request.book, files[path], chapter.number))
    return "\n\n".join(parts)


def _contract(book: Book, file: TreeFile, number: int) -> str:
    title = f"{file.path} ({file.mark})" if file.mark == "modified" else file.path
    if not file.path.endswith(".py"):
        return fenced(file.text(), "text", title)
    before = (
        book.tree(_before(book, number)).files[file.path].text()
        if file.mark == "modified"
        else None
    )
    return fenced(Stub(file.text(), before).text(), "python", title)


def _before(book: Book, number: int) -> int:
    return max(chapter.number for chapter in book.chapters if chapter.number < number)
