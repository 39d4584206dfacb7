"""`upstream refresh PATH`: what moved in another commit of mini-sglang, and which pages say so."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import catalogue
from steplib.book import Book
from steplib.errors import UserError
from steplib.paths import write_atomically
from steplib.upstream import moved, report, touched
from steplib.upstream.checkout import Checkout
from steplib.upstream.refresh import as_text, refreshed


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 whenever it worked. Without --write nothing changes."""
    book = Book.load(book_root)
    checkout = Checkout.at(Path(args.path))
    if checkout.commit is None:
        raise UserError(f"{args.path} is no git repository of its own; clone mini-sglang anew.")
    if checkout.changed:
        first = checkout.changed[0]
        raise UserError(f"{args.path} has changes that are not committed, such as {first}.")
    before = catalogue.raw()
    after, notes = refreshed(before, checkout)
    found = moved.moved(before, after)
    for line in report.lines(found, touched.places(book, found), notes):
        print(line)
    if args.write and after != before:
        write_atomically(catalogue.FILE, as_text(after))
        print("\nthe catalogue is written for the new commit")
        print("next  python tools/steps.py docs")
    return 0
