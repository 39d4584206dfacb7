"""`propagate FILE NN`: carry a fix in a chapter's form through the later forms."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import forms
from steplib.book import Book
from steplib.paths import shown


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Merge, and print each form that took the fix; 1 on a conflict."""
    book = Book.load(book_root)
    result = forms.propagate(book, args.file, args.chapter)
    if result.conflict:
        print(f"conflict in {result.conflict.sentence(book.root)}")
        print("Nothing was changed. Mend that form by hand, and the later ones from there on.")
        return 1
    for form in result.changed:
        print(f"fixed {shown(form.source, book.root)} (chapter {form.chapter:02d})")
    for form in result.unchanged:
        print(f"has the fix already: {shown(form.source, book.root)} (chapter {form.chapter:02d})")
    print("Next: python tools/steps.py tree all --write, then python tools/steps.py check")
    return 0
