"""`status`: which chapters the files of a working folder have passed, and which is next."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from steplib import standing
from steplib.book import Book
from steplib.errors import UserError
from steplib.workfolder import WorkFolder


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Nothing is run: only hashes are compared. The status is 0 whatever stands."""
    book = Book.load(book_root)
    folder = WorkFolder.around(Path(args.mine or ".").resolve())
    if folder.chapter is None or all(c.number != folder.chapter for c in book.chapters):
        raise UserError(f"{folder.path} is at no chapter of this book; start one in a new folder.")
    shown = shlex.quote(args.mine or str(folder.path))
    print(f"{shown} is at chapter {book.chapter(folder.chapter).name}")
    for line in standing.lines(standing.standings(book, folder), shown):
        print(line)
    return 0
