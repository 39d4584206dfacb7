"""`freeze FILE NN`: keep the newest form of a file for a chapter."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import forms
from steplib.book import Book
from steplib.paths import shown


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Copy the form and say what may be done next."""
    book = Book.load(book_root)
    kept = forms.freeze(book, args.file, args.chapter)
    print(
        f"{shown(kept, book.root)} keeps {args.file} as it is now. A later chapter may change it: "
        "list the file in `modifies` of that chapter's step.toml."
    )
    return 0
