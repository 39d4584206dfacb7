"""The class as CSV: a row for each student, with the total and the points of each chapter."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from steplib.grading.formats.view import amount, plain

if TYPE_CHECKING:
    from steplib.grading.schema import ClassReport, SubmissionReport

_FORMULA = ("=", "+", "-", "@", "\t", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A cell that begins so is run by a spreadsheet; some take the wide forms for the narrow ones."""


def as_csv(report: ClassReport) -> str:
    """Columns: the total, each chapter and its maximum, and what the reports were made with."""
    numbers = chapters(report)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [name for number in numbers for name in (f"{number:02d}", f"{number:02d} max")]
    writer.writerow(
        ["name", "points", "max_points", *columns, "notes", "isolation", "seed", "sha256"]
    )
    writer.writerows(_row(submission, numbers) for submission in report.submissions)
    return out.getvalue()


def chapters(report: ClassReport) -> list[int]:
    """The chapters that some item is about, in order."""
    return sorted({item.chapter for it in report.submissions for item in it.items})


def _row(report: SubmissionReport, numbers: list[int]) -> list[str]:
    by_chapter = report.by_chapter()
    points = []
    for number in numbers:
        items = by_chapter.get(number, [])
        points += [sum(item.points for item in items), sum(item.max_points for item in items)]
    return [
        _cell(report.name),
        *map(amount, (report.points, report.max_points, *points)),
        _cell("; ".join(report.notes)),
        report.isolation,
        str(report.seed),
        report.sha256,
    ]


def _cell(text: str) -> str:
    """One line of text that no spreadsheet takes for a formula."""
    line = " ".join(plain(text).split())
    return f"'{line}" if line.startswith(_FORMULA) else line
