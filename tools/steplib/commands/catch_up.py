"""`catch-up NN`: the book's form of everything that the chapters before NN make."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from steplib import starter, welcome
from steplib.book import Book
from steplib.errors import UserError
from steplib.workfolder import WorkFolder


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Keep copies, then replace; what chapter NN asks to write is laid only where NN is new."""
    book = Book.load(book_root)
    chapter = book.chapter(args.chapter)
    folder = WorkFolder.around(Path(args.mine or ".").resolve())
    assert folder.chapter is not None
    if chapter.number < folder.chapter:
        raise UserError(
            f"{folder.path} is at chapter {folder.chapter:02d} already; "
            f"start {chapter.number:02d} in a new folder."
        )
    contents = starter.contents(book, chapter.number)
    starters = starter.starters(book, chapter.number)
    if chapter.number == folder.chapter:
        contents = {p: d for p, d in contents.items() if p not in starters or not folder.read(p)}
    replaced = folder.changed(contents)
    folder.chapter = chapter.number
    for path in replaced:
        copy = folder.keep(path)
        print(f"{path}: " + (f"replaced; yours is kept as {copy}" if copy else "laid"))
    folder.replace({path: contents[path] for path in replaced})
    folder.lay(welcome.texts(book, chapter, starters, folder.path))
    noun = "file" if len(replaced) == 1 else "files"
    print(f"{len(replaced)} {noun} brought up to the start of chapter {chapter.name}")
    place = shlex.quote(args.mine or ".")
    print(f"next  python tools/steps.py check {chapter.number:02d} --mine {place}")
    return 0
