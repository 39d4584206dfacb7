"""`check [NN ... | all]`: prove chapters."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import cache, check, report
from steplib.book import Book, Chapter
from steplib.context import Context, Limits
from steplib.errors import UserError
from steplib.lineup import Lineup
from steplib.oracle import Oracle
from steplib.paths import write_atomically
from steplib.process import Launcher
from steplib.progress import progress
from steplib.warm import quick_runner


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when everything passed, 1 when a check failed."""
    book = Book.load(book_root)
    chapters = chosen(book, args.chapters)
    jobs = check.default_jobs() if args.jobs is None else args.jobs
    if jobs < 1:
        raise UserError(f"-j {jobs}: at least one chapter must be checked at a time.")
    with progress(chapters) as watcher:
        found = check.check_chapters(
            context(book, args.fresh), chapters, jobs, watcher, args.require_real
        )
    for line in report.lines(found):
        print(line)
    if args.json:
        write_atomically(Path(args.json), report.as_json(found))
    if args.junit:
        write_atomically(Path(args.junit), report.as_junit(found))
    return 0 if found.is_passed else 1


def chosen(book: Book, wanted: list[str]) -> list[Chapter]:
    """The chapters asked for, in book order; all of them for none or "all"."""
    if not wanted or "all" in wanted:
        return book.chapters
    numbers = {book.chapter(text).number for text in wanted}
    return [chapter for chapter in book.chapters if chapter.number in numbers]


def context(book: Book, is_fresh: bool = False, model: str | None = None) -> Context:
    """What checks need, with transformers as the reference."""
    lineup = Lineup.of(book, model)
    return Context(
        book=book,
        lineup=lineup,
        references=Oracle(book.root),
        runner=Launcher(lineup.folder),
        forks=quick_runner(lineup.folder),
        kept=cache.Results(book.root, is_fresh),
        limits=Limits(),
    )
