"""`similar --submissions DIR`: pairs of submissions that are more alike than chance."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import starter
from steplib.book import Book
from steplib.commands.grade import chapters
from steplib.exercises import every
from steplib.grading import intake
from steplib.grading.similar import pairs, prints, report
from steplib.paths import write_atomically


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Always 0: to be alike is no failure."""
    book = Book.load(book_root)
    handed_out = _handed_out(book, chapters(book, args.chapters))
    sources, left_out = _sources(Path(args.submissions))
    everybody = [prints.read(name, files, handed_out) for name, files in sources.items()]
    found = pairs.compare(everybody, prints.all_grams(handed_out))
    for line in report.lines(found, left_out):
        print(line)
    if args.html:
        write_atomically(Path(args.html), report.as_page(found, sources, left_out))
        print(f"side by side: {args.html}")
    return 0


def _handed_out(book: Book, wanted: tuple[int, ...]) -> set[bytes]:
    """All that `start` and `exercise start` lay, the book's own files of earlier chapters too."""
    numbers = wanted or tuple(chapter.number for chapter in book.chapters)
    laid = [starter.contents(book, number) for number in numbers]
    files = {data for tree in laid for path, data in tree.items() if path.endswith(".py")}
    exercises = [it.starter.read_bytes() for it in every(book) if it.chapter.number in numbers]
    return {*files, *exercises}


def _sources(folder: Path) -> tuple[dict[str, dict[str, bytes]], list[str]]:
    """The Python files of each submission, and a sentence for each that can't be read."""
    sources, left_out = {}, []
    for place in intake.submissions(folder):
        name = intake.name_of(place)
        try:
            files = intake.take(place).files
        except intake.Refused as reason:
            left_out.append(f"{name} is left out: {reason}")
        else:
            sources[name] = {path: data for path, data in files.items() if path.endswith(".py")}
    return sources, left_out
