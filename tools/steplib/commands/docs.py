"""`docs [--check] [PAGE ...]`: write the generated blocks, or only look whether they are fresh."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from steplib import docs
from steplib.book import Book
from steplib.docs import Watch
from steplib.errors import UserError
from steplib.paths import shown

FAILED = 1


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Every page, or those that are named."""
    book = Book.load(book_root)
    named = [_page(book, name) for name in args.pages]
    pages = named or docs.pages(book.root)
    return _check(book, pages) if args.check else _write(book, pages)


def _page(book: Book, name: str) -> Path:
    """A page by its path, or a chapter's page by the chapter's number."""
    if name.isdigit():
        return docs.chapter_pages(book, int(name))[0]
    for path in (Path(name), book.root / name, book.root / "docs" / name):
        if path.is_file():
            return path.resolve()
    raise UserError(f"There is no page {name}; name a file under docs/ or a chapter's number.")


def _check(book: Book, pages: list[Path]) -> int:
    watch = Watch(_live)
    problems = docs.problems(book, pages, watch)
    _live("")
    for note in watch.notes:
        print(f"NOT checked: {note}.")
    for problem in problems:
        print(problem)
    if problems:
        print(f"{_count(len(problems), 'problem')} on {_count(len(pages), 'page')}.")
        return FAILED
    print(f"The generated blocks of {_count(len(pages), 'page')} are fresh.")
    return 0


def _write(book: Book, pages: list[Path]) -> int:
    changed, problems = 0, []
    watch = Watch(_live)
    for page in pages:
        written = docs.write(book, page, watch)
        _live("")
        changed += len(written.changed)
        problems += written.problems
        for block in written.overwritten:
            print(f"{shown(page, book.root)}:{block.line}: overwrote a hand edit of {block.spec}")
    for note in watch.notes:
        print(f"NOT run again: {note}.")
    for problem in problems:
        print(problem)
    print(f"{_count(changed, 'block')} written on {_count(len(pages), 'page')}.")
    return FAILED if problems else 0


def _live(line: str) -> None:
    """The block at work, on a line of its own that the next one overwrites."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line[:100]}", end="", file=sys.stderr, flush=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
