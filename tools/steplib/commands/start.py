"""`start NN --into DIR`: a working folder in which a reader writes a chapter."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from steplib import starter, welcome, workfolder
from steplib.book import Book


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Lay the chapter before and this one's starters; what the reader changed stays."""
    book = Book.load(book_root)
    chapter = book.chapter(args.chapter)
    place = Path(args.into).resolve()
    folder = workfolder.to_start_in(place, book.root, chapter.number)
    starters = starter.starters(book, chapter.number)
    texts = welcome.texts(book, chapter, starters, place)
    laid = folder.lay(starter.contents(book, chapter.number) | texts)
    print(f"{len(laid.written)} files for chapter {chapter.name} are in {args.into}")
    print("yours to write:")
    for path, it in starters.items():
        is_kept = " (kept as you have it)" if path in laid.kept else ""
        print(f"  {path}: {welcome.tasks(it)}{is_kept}")
    if others := [path for path in laid.kept if path not in starters]:
        print(f"kept as you have them: {', '.join(others)}")
    print(f"read  docs/chapters/{chapter.name}.md")
    print(f"next  python tools/steps.py check {chapter.number:02d} --mine {shlex.quote(args.into)}")
    return 0
