"""What every kind of block shares: what it is asked for, and how it says no."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.errors import did_you_mean
from steplib.paths import shown

if TYPE_CHECKING:
    from steplib.book import Book, Chapter, TreeFile


class BlockError(Exception):
    """A block that can't be rendered: one sentence with what to do."""


@dataclass(frozen=True)
class Request:
    """One block to render: the book, the page it stands on, its arguments, what it holds now."""

    book: Book
    page: Path
    args: tuple[str, ...] = ()
    current: str = ""
    notes: list[str] = field(default_factory=list)  # what could not be looked at, a sentence each

    @cached_property
    def page_chapter(self) -> int | None:
        """The chapter whose page this is, read off the file's name."""
        found = re.match(r"(\d\d)-", self.page.name)
        return int(found[1]) if found and self.page.parent.name == "chapters" else None

    def chapter(self, position: int = 0) -> Chapter:
        """The chapter named by an argument, or the page's own when there is none."""
        if position < len(self.args):
            return self.numbered(self.args[position])
        if self.page_chapter is None:
            raise BlockError("Name the chapter: this page belongs to none.")
        return self.numbered(self.page_chapter)

    def numbered(self, number: str | int) -> Chapter:
        """Chapter `number`; BlockError when the book has none."""
        known = {chapter.number: chapter for chapter in self.book.chapters}
        text = str(number)
        if not text.isdigit() or int(text) not in known:
            raise BlockError(f'The book has no chapter "{text}" yet; name one that it has.')
        return known[int(text)]

    def file(self, path: str, chapter: Chapter) -> TreeFile:
        """A file of the chapter's tree."""
        files = self.book.tree(chapter.number).files
        if path not in files:
            near = did_you_mean(path, files)
            raise BlockError(f"Chapter {chapter.number:02d}'s tree has no file {path}.{near}")
        return files[path]

    def link(self, target: Path) -> str:
        """`target` as a link from the page."""
        return Path(os.path.relpath(target, self.page.parent)).as_posix()

    @property
    def where(self) -> str:
        return shown(self.page, self.book.root)


def split_symbol(text: str) -> tuple[str, str]:
    """`path::Symbol` in its two parts; the symbol may be empty."""
    path, _, symbol = text.partition("::")
    return path, symbol


def fenced(text: str, language: str, title: str = "") -> str:
    """A code fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    head = f'{language} title="{title}"' if title else language
    return f"{fence}{head}\n{text.rstrip()}\n{fence}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; a `|` in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
