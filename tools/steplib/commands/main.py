"""`main NN`: run a chapter's main on its own tree and show what it prints."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from steplib import mains
from steplib.book import Book
from steplib.facts import ChapterResults
from steplib.lineup import Lineup
from steplib.process import Launcher
from steplib.report import failure_lines


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when main came to its end and generated something."""
    book = Book.load(book_root)
    chapter = book.chapter(args.chapter)
    lineup = Lineup.of(book, args.model)
    model = lineup.main_model(chapter)
    print(f"chapter {chapter.name} on {model.name}", file=sys.stderr, flush=True)
    outcome = mains.run_main(book, chapter, model, Launcher(lineup.folder))
    print(outcome.stdout, end="")
    hashes = {path: file.sha256 for path, file in book.tree(chapter.number).files.items()}
    result = mains.judged(outcome, hashes, model.name)
    if result.is_passed:
        return 0
    for trace in [record["trace"] for record in outcome.of_kind("error")]:
        print(trace, file=sys.stderr)
    print(outcome.stderr, end="", file=sys.stderr)
    result.next_command = f"python tools/steps.py check {chapter.number:02d}"
    shown = ChapterResults(chapter.number, chapter.name, chapter.title)
    print("\n".join(failure_lines(shown, result)), file=sys.stderr)
    return 1
