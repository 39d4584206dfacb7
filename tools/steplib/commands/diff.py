"""`diff NN --mine DIR`: a reader's files beside the reference or upstream, by symbol."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import mine
from steplib.book import Book
from steplib.diff import text
from steplib.diff.reference import against_reference
from steplib.errors import UserError
from steplib.paths import write_atomically

if TYPE_CHECKING:
    from steplib.diff.compare import Comparison


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 whenever it worked: a difference is no failure."""
    if not args.mine:
        raise UserError("name your working folder: diff NN --mine DIR")
    found = _found(Book.load(book_root), args)
    paint = text.colored if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text.plain
    for line in text.lines(found, paint):
        print(line)
    if args.html:
        from steplib.diff.page import page  # only a page needs jinja2

        write_atomically(Path(args.html), page(found))
        print(f"\nthe same as a page: {args.html}")
    return 0


def _found(book: Book, args: argparse.Namespace) -> Comparison:
    own = mine.read(book, Path(args.mine), args.chapter)
    chapter = own.chapter(args.chapter)
    if args.against == "reference":
        if args.upstream:
            raise UserError("--upstream PATH goes with --against upstream.")
        return against_reference(own, chapter, args.all)
    from steplib.diff.upstream import against_upstream

    checkout = Path(args.upstream) if args.upstream else None
    return against_upstream(own, chapter, args.all, checkout)
