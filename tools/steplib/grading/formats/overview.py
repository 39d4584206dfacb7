"""What an instructor wants to know of a class: how points lie over students, chapters, items."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from steplib.grading.formats import table
from steplib.grading.formats.view import Row, row

if TYPE_CHECKING:
    from steplib.grading.schema import ClassReport, Item, SubmissionReport

_MOST = 15
_BINS = 10


@dataclass(frozen=True)
class Cell:
    """What a student earned in a chapter."""

    points: float
    max_points: float


@dataclass(frozen=True)
class Student:
    """A row of the class table. cells: by chapter; None where the chapter was not graded."""

    report: SubmissionReport
    cells: list[Cell | None]


@dataclass(frozen=True)
class Hard:
    """An item with the number of students who did not pass it, and their verdicts."""

    item: Row
    visibility: str
    failed: int
    verdicts: list[tuple[str, int]]


@dataclass(frozen=True)
class Bin:
    """The students whose share of the points is between two tenths."""

    first: int
    last: int
    names: list[str]


def chapters(report: ClassReport) -> list[int]:
    """The chapters that have a column."""
    return table.chapters(report)


def students(report: ClassReport) -> list[Student]:
    """One row each, as the report orders them."""
    numbers = chapters(report)
    found = []
    for submission in report.submissions:
        items = submission.by_chapter()
        found.append(Student(submission, [_cell(items.get(number)) for number in numbers]))
    return found


def _cell(items: list[Item] | None) -> Cell | None:
    if items is None:
        return None
    return Cell(sum(item.points for item in items), sum(item.max_points for item in items))


def distribution(report: ClassReport) -> list[Bin]:
    """Ten bins of a tenth each; who has everything is in the last."""
    names: list[list[str]] = [[] for _ in range(_BINS)]
    for submission in report.submissions:
        names[min(int(_share(submission) * _BINS), _BINS - 1)].append(submission.name)
    step = 100 // _BINS
    return [Bin(step * place, step * (place + 1), group) for place, group in enumerate(names)]


def middle(report: ClassReport) -> float:
    """The median of the points; 0 for an empty class."""
    return median([submission.points for submission in report.submissions] or [0.0])


def summary(report: ClassReport) -> list[tuple[str, list[float]]]:
    """Median and maximum of the total and of each chapter, under the columns of the table."""
    rows = students(report)
    columns = [
        [cell for cell in column if cell] for column in zip(*(r.cells for r in rows), strict=True)
    ]
    medians = [median(cell.points for cell in column) for column in columns]
    most = [max(cell.max_points for cell in column) for column in columns]
    total = max((row.report.max_points for row in rows), default=0.0)
    return [("median", [middle(report), *medians]), ("maximum", [total, *most])]


def hardest(report: ClassReport) -> list[Hard]:
    """The items that most students did not pass, most first."""
    verdicts: dict[str, Counter[str]] = {}
    known: dict[str, Item] = {}
    for submission in report.submissions:
        for item in submission.items:
            known.setdefault(item.id, item)
            if item.verdict != "passed":
                verdicts.setdefault(item.id, Counter())[item.verdict] += 1
    found = [
        Hard(row(known[id_]), known[id_].visibility, seen.total(), seen.most_common())
        for id_, seen in verdicts.items()
    ]
    return sorted(found, key=lambda hard: -hard.failed)[:_MOST]


def notes(report: ClassReport) -> list[tuple[str, list[str]]]:
    """Each note with the students whose report has it, the most frequent first."""
    names: dict[str, list[str]] = {}
    for submission in report.submissions:
        for note in dict.fromkeys(submission.notes):
            names.setdefault(note, []).append(submission.name)
    return sorted(names.items(), key=lambda pair: -len(pair[1]))


def _share(report: SubmissionReport) -> float:
    return report.points / report.max_points if report.max_points else 1.0
