"""`grade --submissions DIR --chapters NN-MM --out DIR`: grade what a class handed in."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path
from typing import NoReturn

from steplib.book import Book
from steplib.check import default_jobs
from steplib.errors import UserError
from steplib.exercises.exercise import find
from steplib.grading import intake, isolation
from steplib.grading.course import Course
from steplib.grading.exam import Exam
from steplib.grading.formats.view import plain
from steplib.grading.output import prepare, write_all

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when everybody could be graded, whatever they got; 1 when the tool failed at somebody."""
    book = Book.load(book_root)
    exercises = [word for text in args.exercises or () for word in text.split(",") if word]
    exam = Exam(
        book.root, chapters(book, args.chapters),
        tuple(find(book, wanted).id for wanted in exercises), args.seed,
    )  # fmt: skip
    if not exam.chapters and not exam.exercises:
        raise UserError("name what to grade: --chapters NN-MM, --exercises K, or both.")
    _demand_models(exam)
    jobs = default_jobs() if args.jobs is None else args.jobs
    if jobs < 1:
        raise UserError(f"-j {jobs}: at least one submission must be graded at a time.")
    out = Path(args.out)
    intake.submissions(Path(args.submissions))
    prepare(out, Path(args.submissions))
    kind = isolation.strictest()
    print(f"sandbox: {kind}")
    if kind in isolation.WARNINGS:
        print(f"warning: {isolation.WARNINGS[kind]}")
    course = Course(exam, jobs, _say, args.fresh)
    signal.signal(signal.SIGTERM, _leave)
    report = course.graded(Path(args.submissions))
    if others := intake.passed_over(Path(args.submissions)):
        _say(f"passed over, neither a folder nor a zip: {', '.join(others)}")
    write_all(report, out)
    print(f"{len(report.submissions)} reports are in {out}; look at {out / 'index.html'}")
    for name in course.broken:
        _say(f"not graded: {name}; see {out / 'students' / name / 'report.json'}")
    return 1 if course.broken else 0


def _demand_models(exam: Exam) -> None:
    """UserError for a chapter that is compared on no model: nothing drawn would stand by main."""
    for number in exam.chapters:
        if not exam.models(number):
            raise UserError(
                f"chapter {number:02d} can't be graded: its step.toml lists no models under "
                "[parity], so nothing of it is compared on drawn prompts; leave it out."
            )


def _say(line: str) -> None:
    """A line of progress; a student's name may hold anything."""
    print(plain(line.replace("\n", " ")), flush=True)


def _leave(number: int, _: object) -> NoReturn:
    """End as a Ctrl-C does, so that no worker and no sandbox is left."""
    sys.exit(128 + number)


def chapters(book: Book, wanted: str | None) -> tuple[int, ...]:
    """The chapters of "07", "07-11" or "07,09-11", in order; none for None."""
    found: set[int] = set()
    for part in wanted.split(",") if wanted is not None else ():
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise UserError(f'--chapters {wanted}: write it as 07, 07-11 or "07,09-11".')
        first = book.chapter(match[1]).number
        last = book.chapter(match[2]).number if match[2] else first
        if last < first:
            raise UserError(f"--chapters {part}: the first one comes after the last one.")
        found |= {c.number for c in book.chapters if first <= c.number <= last}
    return tuple(sorted(found))
