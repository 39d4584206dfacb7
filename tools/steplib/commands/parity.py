"""`parity NN [--model M]`: compare a chapter's tokens and logits with transformers'."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib.book import Book
from steplib.checks import CHECKS, prove
from steplib.commands.check import context
from steplib.context import Context
from steplib.facts import ChapterResults, Result
from steplib.report import failure_lines


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Always runs anew; 0 when tokens and logits agree on every model."""
    book = Book.load(book_root)
    chapter = book.chapter(args.chapter)
    folders = context(book, model=args.model).lineup.parity_models(chapter)
    for folder in folders:
        result = _one(context(book, True, str(folder) if args.model else folder.name), args.chapter)
        if not result.is_passed:
            shown = ChapterResults(chapter.number, chapter.name, chapter.title)
            print("\n".join(failure_lines(shown, result)))
            return 1
        print(_line(result), flush=True)
    return 0 if folders else 1


def _one(context: Context, wanted: str) -> Result:
    check = next(check for check in CHECKS if check.name == "parity")
    return prove(context, check, context.book.chapter(wanted), {})


def _line(result: Result) -> str:
    [facts] = result.data["models"]
    runs = f"{facts['runs']} run" + ("s" if facts["runs"] > 1 else "")
    off = f"{facts['largest_difference']:.1e} of {facts['allowed_difference']:.1e} allowed"
    return (
        f"{facts['model']:<16} {facts['tokens']} tokens equal in {runs}, "
        f"{facts['near_ties']} near ties; logits differ by at most {off}"
    )
