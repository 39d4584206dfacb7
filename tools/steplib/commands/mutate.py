"""`mutate NN | all`: which small wrong changes a chapter's check does not notice."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from steplib.book import Book
from steplib.commands.check import chosen
from steplib.errors import UserError
from steplib.mutation.report import ChapterRun, as_data, lines
from steplib.mutation.run import Mutation
from steplib.oracle import Oracle
from steplib.paths import write_atomically

_EVERY = 20  # mutants between two lines of progress where stderr is no terminal


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when every chapter's check notices enough of its mutants, else 1."""
    for option, number in (("--sample", args.sample), ("-j", args.jobs)):
        if number < 1:
            raise UserError(f"{option} {number}: it must be 1 or more.")
    book = Book.load(book_root)
    whole = Mutation(book, Oracle(book.root), progress, args.jobs)
    size = None if args.all else args.sample
    runs: list[ChapterRun] = []
    for chapter in chosen(book, [args.chapter]):
        runs.append(whole.chapter(chapter, size, args.seed))
        print("\n".join(lines(runs[-1])), flush=True)
        if args.json:
            text = json.dumps(as_data(runs, args.seed), indent=1)
            write_atomically(Path(args.json), text + "\n")
    return 0 if all(one.is_enough for one in runs) else 1


def progress(found: ChapterRun) -> None:
    """One line that is overwritten, or where that can't be, now and then a new one."""
    done, every = len({*found.verdicts, *found.reasons}), len(found.mutants)
    survived = sum(verdict.word == "survived" for verdict in found.verdicts.values())
    said = f"{found.number:02d}: {done} of {every} mutants tried, {survived} survived"
    if sys.stderr.isatty():
        print(f"\r{said}", end="\n" if done == every else "", file=sys.stderr, flush=True)
    elif done % _EVERY == 0:
        print(said, file=sys.stderr, flush=True)
