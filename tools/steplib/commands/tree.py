"""`tree NN`: a chapter's files with their marks; `--write` makes TREE anew."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from steplib.book import Book
from steplib.errors import UserError
from steplib.paths import shown, write_atomically
from steplib.tree import Tree

COLORS = {"created": "green", "modified": "yellow", "early": "magenta", "untouched": "dim"}


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Show or write the tree of one chapter, or of all."""
    book = Book.load(book_root)
    chapters = book.chapters if args.chapter == "all" else [book.chapter(args.chapter)]
    for chapter in chapters:
        tree = book.tree(chapter.number)
        if args.write:
            _write(book, tree)
        else:
            _show(tree)
    return 0


def _write(book: Book, tree: Tree) -> None:
    listing, text = tree.chapter.folder / "TREE", tree.text()
    if listing.is_file() and listing.read_text(encoding="utf-8") == text:
        print(f"{shown(listing, book.root)} is up to date")
        return
    write_atomically(listing, text)
    print(f"{shown(listing, book.root)} written: {len(tree.files)} files")


def _show(tree: Tree) -> None:
    print(f"Chapter {tree.chapter.number:02d}, {tree.chapter.title}: {len(tree.files)} files")
    rows = [(str(file.mark), f"{file.owner:02d}", file.path) for file in tree.files.values()]
    if sys.stdout.isatty():
        _show_in_color(rows)
    else:
        for mark, owner, path in rows:
            print(f"{mark:<9}  {owner}  {path}")


def _show_in_color(rows: list[tuple[str, str, str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        raise UserError('rich is missing; run: pip install -e ".[dev]"') from None
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("mark", "of", "file"):
        table.add_column(heading)
    for mark, owner, path in rows:
        table.add_row(mark, owner, path, style=COLORS[mark])
    Console().print(table)
