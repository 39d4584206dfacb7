"""`contracts NN`: the files that the chapter's reader writes, as stubs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steplib.blocks.base import Request, fenced
from steplib.stubs import Stub

if TYPE_CHECKING:
    from steplib.book import Book, TreeFile


def render(request: Request) -> str:
    """One code block a file; of a modified file only what is new or different."""
    chapter = request.chapter()
    files = request.book.tree(chapter.number).files
    manifest = chapter.manifest
    parts = []
    for path in [*manifest.creates, *manifest.modifies]:
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
