"""`assemble NN --into DIR`: a chapter's tree as plain files."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from steplib.book import Book
from steplib.errors import UserError
from steplib.paths import make_folder, writing


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Lay the tree out in a new or empty folder, completely or not at all."""
    tree = Book.load(book_root).tree(args.chapter)
    into = Path(args.into).absolute()
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UserError(f"{args.into} is not an empty folder; name a new one with --into.")
    make_folder(into.parent)
    with writing(into):
        draft = Path(tempfile.mkdtemp(prefix=f".{into.name}.", dir=into.parent))
    try:
        tree.write(draft)
        draft.chmod(0o755)
        draft.rename(into)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    print(f"{len(tree.files)} files of chapter {tree.chapter.name} are in {args.into}")
    return 0
