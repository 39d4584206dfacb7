"""`list`: the chapters of the plan, and which of them are written."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import fill

from steplib import plan
from steplib.book import Book

_INDENT = " " * 6


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Print the plan by stage; a chapter that is not written yet is marked."""
    written = {chapter.number for chapter in Book.load(book_root).chapters}
    planned = plan.load()
    for stage in planned.stage:
        print(f"{stage.name} ({stage.days})")
        for chapter in planned.chapter:
            if chapter.stage == stage.name:
                state = "" if chapter.number in written else "  (not written yet)"
                print(f"  {chapter.number:02d}  {chapter.title}{state}")
                print(fill(chapter.adds, 96, initial_indent=_INDENT, subsequent_indent=_INDENT))
    return 0
