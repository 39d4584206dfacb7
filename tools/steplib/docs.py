"""The handbook's generated blocks: write them, and find those that are stale or edited by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from steplib import blocks, markers
from steplib.blocks import BlockError, Request
from steplib.book import Book
from steplib.errors import Problem, UserError
from steplib.markers import Block, MarkerError
from steplib.paths import shown, write_atomically

CHECK = "docs"
MEND = "Run: python tools/steps.py docs"


@dataclass
class Watch:
    """Who is told how it goes: `show` of each block before its turn; `notes`: what was left out."""

    show: Callable[[str], None] = lambda line: None
    notes: list[str] = field(default_factory=list)


@dataclass
class Written:
    """What writing one page came to."""

    page: Path
    changed: list[Block] = field(default_factory=list)
    overwritten: list[Block] = field(default_factory=list)  # those that had been edited by hand
    problems: list[Problem] = field(default_factory=list)  # those that could not be made


def pages(root: Path) -> list[Path]:
    """Every page that may hold blocks, in a fixed order."""
    readme = [page for page in (root / "README.md",) if page.is_file()]
    return [*readme, *sorted((root / "docs").rglob("*.md"))]


def chapter_pages(book: Book, number: int) -> list[Path]:
    """A chapter's page, and its translations (page.zh.md)."""
    name = book.chapter(number).name
    folder = book.root / "docs" / "chapters"
    return [folder / f"{name}.md", *sorted(folder.glob(f"{name}.*.md"))]


def stale_blocks(book: Book, chapter: int, watch: Watch | None = None) -> list[Problem]:
    """What is wrong with the blocks of one chapter's pages."""
    return problems(book, chapter_pages(book, chapter), watch)


def problems(book: Book, of: Iterable[Path], watch: Watch | None = None) -> list[Problem]:
    """What is wrong with the blocks of these pages."""
    watching = watch or Watch()
    return [problem for page in of for problem in _page_problems(book, page, watching)]


def write(book: Book, page: Path, watch: Watch | None = None) -> Written:
    """Fill the page's blocks anew; a block that can't be made keeps what it holds."""
    text = _read(book, page)
    written, contents = Written(page), {}
    for block in _blocks(book, page, text):
        content = _rendered(book, page, block, watch or Watch())
        if isinstance(content, Problem):
            written.problems.append(content)
        elif content != block.content or not block.is_intact:
            contents[block.line] = content
            written.changed.append(block)
            if block.content and not block.is_intact:
                written.overwritten.append(block)
    if contents:
        write_atomically(page, markers.replace(text, contents))
    return written


def _page_problems(book: Book, page: Path, watch: Watch) -> list[Problem]:
    where = shown(page, book.root)
    if not page.is_file():
        return [Problem(CHECK, where, "The page is missing.", "Write it.")]
    try:
        found = markers.blocks(page.read_text(encoding="utf-8"))
    except MarkerError as error:
        message = error.message[:1].upper() + error.message[1:]
        return [Problem(CHECK, f"{where}:{error.line}", message, "Mend the marker.")]
    problems = (_block_problem(book, page, block, watch) for block in found)
    return [problem for problem in problems if problem]


def _block_problem(book: Book, page: Path, block: Block, watch: Watch) -> Problem | None:
    where = f"{shown(page, book.root)}:{block.line}"
    if block.is_empty:
        return Problem(CHECK, where, f'The block "{block.spec}" was never filled.', MEND)
    if not block.is_intact:
        message = f'The block "{block.spec}" was edited by hand.'
        return Problem(CHECK, where, message, f"Change its source instead. {MEND}")
    fresh = _rendered(book, page, block, watch)
    if isinstance(fresh, Problem):
        return fresh
    if fresh != block.content:
        return Problem(CHECK, where, f'The block "{block.spec}" is stale.', MEND)
    return None


def _rendered(book: Book, page: Path, block: Block, watch: Watch) -> str | Problem:
    where = f"{shown(page, book.root)}:{block.line}"
    watch.show(f"{where}: {block.spec}")
    current = block.content if block.is_intact else ""
    try:
        return blocks.render(block.kind, Request(book, page, block.args, current, watch.notes))
    except (BlockError, UserError) as error:
        return Problem(CHECK, where, f'The block "{block.spec}" can\'t be made.', str(error))


def _blocks(book: Book, page: Path, text: str) -> list[Block]:
    try:
        return markers.blocks(text)
    except MarkerError as error:
        raise UserError(f"{shown(page, book.root)}:{error.line}: {error.message}") from None


def _read(book: Book, page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{shown(page, book.root)} is missing; write it.") from None
