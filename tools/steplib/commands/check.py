"""`check [NN ... | all]`: prove chapters; with --mine DIR, a reader's own files."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import cache, check, mine, minechecks, minereport, passes, report
from steplib.book import Book, Chapter
from steplib.checks import CHECKS
from steplib.context import Context, Limits
from steplib.errors import UserError
from steplib.lineup import Lineup
from steplib.oracle import Oracle
from steplib.paths import write_atomically
from steplib.process import Launcher
from steplib.progress import progress
from steplib.warm import quick_runner

if TYPE_CHECKING:
    from steplib.check import ChecksOf
    from steplib.facts import Report


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when everything passed, 1 when a check failed."""
    book = Book.load(book_root)
    if args.mine:
        return _run_mine(book, args)
    if args.all:
        raise UserError("--all goes with --mine DIR; every chapter of the book is: check all")
    found = _found(book, chosen(book, args.chapters), args, lambda _: CHECKS)
    return _told(report.lines(found), found, args)


def _run_mine(book: Book, args: argparse.Namespace) -> int:
    if len(args.chapters) > 1 or "all" in args.chapters:
        raise UserError("--mine takes one chapter; --all adds the tests of all before it.")
    shown = shlex.quote(args.mine)
    own = mine.read(book, Path(args.mine), next(iter(args.chapters), None))
    chapters = [own.chapter(next(iter(args.chapters), own.number))]
    if args.all:
        chapters = [chapter for chapter in own.chapters if chapter.number <= own.number]
    found = _found(own, chapters, args, minechecks.checks_of(own, shown))
    found.earlier_forms = None
    passes.note(own, found)
    return _told(minereport.lines(own, shown, found), found, args)


def _found(
    book: Book, chapters: list[Chapter], args: argparse.Namespace, checks_of: ChecksOf
) -> Report:
    jobs = check.default_jobs() if args.jobs is None else args.jobs
    if jobs < 1:
        raise UserError(f"-j {jobs}: at least one chapter must be checked at a time.")
    needed = context(book, args.fresh)
    names = list(dict.fromkeys(it.name for chapter in chapters for it in checks_of(chapter)))
    with progress(chapters, names) as watcher:
        return check.check_chapters(
            needed, chapters, jobs, watcher, args.require_real, checks_of=checks_of
        )


def _told(lines: Iterable[str], found: Report, args: argparse.Namespace) -> int:
    for line in lines:
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
