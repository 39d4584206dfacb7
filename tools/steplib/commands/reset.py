"""`reset FILE`: a file of a working folder as it was laid there."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import starter
from steplib.book import Book
from steplib.errors import UserError, did_you_mean
from steplib.workfolder import WorkFolder


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Keep a copy, then put the starter back, or the book's form of an earlier chapter's file."""
    book = Book.load(book_root)
    folder = WorkFolder.around(Path(args.mine or args.file).resolve())
    assert folder.chapter is not None
    contents = starter.contents(book, folder.chapter)
    path = _path(folder, args.file, is_inside=bool(args.mine))
    if path not in contents:
        near = did_you_mean(path, contents)
        raise UserError(f"{path} is no file of chapter {folder.chapter:02d}.{near}")
    if not folder.changed({path: contents[path]}):
        print(f"{path} stands as it was laid; nothing to do")
        return 0
    copy = folder.keep(path)
    print(f"{path} is put back as chapter {folder.chapter:02d} lays it; " + _kept(copy))
    folder.replace({path: contents[path]})
    return 0


def _path(folder: WorkFolder, file: str, is_inside: bool) -> str:
    """`file` as the book names it. is_inside: it is given from the folder, not from here."""
    place = Path(folder.path, file) if is_inside else Path(file).resolve()
    return place.relative_to(folder.path).as_posix() if place.is_relative_to(folder.path) else file


def _kept(copy: str | None) -> str:
    return f"yours is kept as {copy}" if copy else "it was missing"
