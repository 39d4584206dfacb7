"""A reader's files in the book's place: one tree, read once, so that an edit can't mix two."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.book import Book
from steplib.errors import UserError, sentence
from steplib.facts import Finding
from steplib.tree import Tree, TreeFile
from steplib.workfolder import WorkFolder

if TYPE_CHECKING:
    from steplib.book import Chapter


@dataclass(frozen=True)
class MyBook(Book):
    """The book with the reader's files as the tree of chapter `number`, the folder's newest one."""

    folder: Path = Path()
    number: int = 0
    mine: dict[str, TreeFile] = field(default_factory=dict)
    faults: tuple[Finding, ...] = ()

    def tree(self, wanted: int | str) -> Tree:
        """The reader's files, whichever chapter's checks run on them."""
        return Tree(self.chapter(wanted), self.mine)

    def is_mine(self, path: str) -> bool:
        """Whether the reader's file is another than the book's."""
        file = self.reference(self.number).files.get(path)
        return file is None or self.mine[path].sha256 != file.sha256

    @property
    def newest(self) -> Chapter:
        return self.chapter(self.number)


def read(book: Book, folder: Path, wanted: str | None) -> MyBook:
    """The folder as it is now. wanted: the chapter, for a folder that was not made by `start`."""
    folder = folder.resolve()
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; make it with: python tools/steps.py start")
    if folder == book.root:
        raise UserError(f"{folder} is the handbook itself; name the folder with your files.")
    number = _number(book, WorkFolder.load(folder), wanted)
    expected = book.reference(number)
    faults: list[Finding] = []
    mine = {}
    for path, file in expected.files.items():
        own = TreeFile(path, folder / path, file.owner, file.mark, file.form)
        if (fault := _fault(own, folder, expected.chapter)) is not None:
            faults.append(fault)
        if own.source.is_file() and _is_inside(own.source, folder):
            mine[path] = own
            own.data  # noqa: B018 - read now, once
    faults += _extra(folder, expected)
    return MyBook(book.root, book.chapters, folder, number, mine, tuple(faults))


def _number(book: Book, folder: WorkFolder, wanted: str | None) -> int:
    asked = book.chapter(wanted).number if wanted is not None else None
    if folder.chapter is None:
        if asked is None:
            raise UserError(f"{folder.path} was not made by start; name the chapter: check NN.")
        return asked
    if asked is not None and asked > folder.chapter:
        raise UserError(
            f"{folder.path} is at chapter {folder.chapter:02d}; "
            f"run: python tools/steps.py start {asked:02d} --into {folder.path}"
        )
    return folder.chapter


def _fault(file: TreeFile, folder: Path, chapter: Chapter) -> Finding | None:
    """What keeps the file from being used at all."""
    if not file.source.is_file():
        writer = f"chapter {file.owner:02d} makes it"
        mend = f"Write it, or run: python tools/steps.py reset {file.source}"
        return Finding(f"the file is missing; {writer}.", file.path, mend=mend)
    if not _is_inside(file.source, folder):
        message = f"it is a link to {file.source.resolve()}, out of your folder."
        return Finding(message, file.path, mend="Put a file of your own there.")
    if not file.path.endswith(".py"):
        return None
    try:
        ast.parse(file.text(), file.path)
    except SyntaxError as error:
        message = f"this is not valid Python: {sentence(error.msg)}"
        where = f"{file.path}:{error.lineno}" if error.lineno else file.path
        return Finding(message, where, mend="Mend the line.")
    except (ValueError, RecursionError, MemoryError) as error:  # not UTF-8, or made to break ast
        return Finding(f"this can't be read as Python: {error}.", file.path, mend="Mend it.")
    return None


def _is_inside(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder)


def _extra(folder: Path, expected: Tree) -> Iterator[Finding]:
    """Python files at the top, and any file of the package, that the chapter's tree lacks."""
    for path in present(folder):
        if path not in expected.files:
            message = f"no chapter up to {expected.chapter.number:02d} has this file."
            yield Finding(message, path, mend="Move it out of your folder.")


def present(folder: Path) -> list[str]:
    """The Python files at the top and the package's files, without what tools leave behind."""
    found = [path for path in _files_below(folder, depth=1) if path.suffix == ".py"]
    found += _files_below(folder / "minisgl")
    paths = [path.relative_to(folder) for path in found]
    return sorted(path.as_posix() for path in paths if not _is_byproduct(path))


def _files_below(folder: Path, depth: int | None = None) -> Iterator[Path]:
    """What is no folder; os.walk passes over a folder that goes away meanwhile."""
    for place, _, names in islice(os.walk(folder), depth):
        yield from (Path(place, name) for name in names)


def _is_byproduct(path: Path) -> bool:
    """Bytecode, copies, and an editor's swap and backup files: nothing that Python imports."""
    is_hidden = any(part.startswith((".", "#", "__pycache__")) for part in path.parts)
    return is_hidden or ".bak-" in path.name or path.name.endswith("~") or path.name == "4913"
