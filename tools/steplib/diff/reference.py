"""A reader's files held against the book's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steplib.diff.compare import Change, Comparison, FileChanges, compare
from steplib.diff.hunks import hunks
from steplib.diff.outline import outline

if TYPE_CHECKING:
    from steplib.book import Chapter
    from steplib.mine import MyBook
    from steplib.tree import TreeFile


def against_reference(book: MyBook, chapter: Chapter, is_all: bool) -> Comparison:
    """The chapter's files, or all of the folder; the reference is the folder's newest chapter."""
    newest = book.newest
    files = [_file(book, file) for file in in_scope(book, chapter, is_all)]
    title = f"Chapter {chapter.number:02d}, {chapter.title}: your files and the reference"
    notes = [*_other_files(book)]
    if newest.number != chapter.number:
        notes.append(f"your folder is at chapter {newest.number:02d}, and so is the reference here")
    return Comparison(title, "reference", tuple(files), tuple(notes))


def in_scope(book: MyBook, chapter: Chapter, is_all: bool) -> list[TreeFile]:
    """The files that the chapter makes or changes, in the form of the folder's newest chapter."""
    newest = book.reference(book.number).files
    own = book.reference(chapter.number).files.values()
    wanted = {file.path for file in own if file.mark != "untouched"}
    return [file for path, file in newest.items() if is_all or path in wanted]


def fault_of(book: MyBook, path: str) -> str:
    """Why a file can't be compared, with its line; nothing when it can."""
    for fault in book.faults:
        where, _, line = fault.where.partition(":")
        if where == path:
            return f"line {line}: {fault.message}" if line else fault.message
    return ""


def _file(book: MyBook, file: TreeFile) -> FileChanges:
    if fault := fault_of(book, file.path):
        return FileChanges(file.path, fault=fault)
    mine, theirs = book.mine[file.path], file
    if mine.sha256 == theirs.sha256:
        return FileChanges(file.path, is_same=True)
    if not file.path.endswith(".py"):
        whole = Change("the whole file", "body", hunks=hunks(mine.text(), theirs.text()))
        return FileChanges(file.path, (whole,))
    return FileChanges(file.path, tuple(compare(outline(mine.text()), outline(theirs.text()))))


def _other_files(book: MyBook) -> Iterator[str]:
    """Files that no chapter has."""
    known = book.reference(book.number).files
    for fault in book.faults:
        if fault.where.partition(":")[0] not in known:
            yield f"{fault.where}: {fault.message}"
