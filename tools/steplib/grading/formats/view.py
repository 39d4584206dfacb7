"""A report as its student may see it: hidden items as one row a chapter, and harmless texts."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steplib.plan import load as load_plan

if TYPE_CHECKING:
    from steplib.grading.schema import Item, SubmissionReport

NOT_SHOWN = "not shown"
FAILS = ("failed", "missing")


@dataclass(frozen=True)
class Row:
    """One line of a student's report. verdict: an Item's, or NOT_SHOWN for withheld ones."""

    id: str
    chapter: int
    title: str
    task: str
    verdict: str
    message: str
    points: float
    max_points: float


def rows(report: SubmissionReport) -> list[Row]:
    """The visible items, and after those of a chapter one row for all that is withheld there."""
    found: list[Row] = []
    for number, items in chapters(report):
        found += [row(item) for item in items if item.visibility == "visible"]
        if withheld := [item for item in items if item.visibility != "visible"]:
            found.append(_withheld(number, withheld))
    return found


def chapters(report: SubmissionReport) -> list[tuple[int, list[Item]]]:
    """Each chapter with its items, by number, wherever its exercises stand in the report."""
    return sorted(report.by_chapter().items())


def row(item: Item) -> Row:
    """An item as it is, its texts made harmless."""
    return Row(
        plain(item.id),
        item.chapter,
        plain(item.title),
        plain(item.task),
        item.verdict,
        plain(item.message),
        item.points,
        item.max_points,
    )


def _withheld(number: int, items: list[Item]) -> Row:
    title = f"{count(len(items), 'check')} that this report doesn't name"
    points, most = (sum(item.points for item in items), sum(item.max_points for item in items))
    return Row(f"{number:02d}.withheld", number, title, NOT_SHOWN, NOT_SHOWN, "", points, most)


def notice(report: SubmissionReport) -> str:
    """One sentence about what is withheld; empty where nothing is."""
    items = [item for item in report.items if item.visibility != "visible"]
    if not items:
        return ""
    points, most = sum(item.points for item in items), sum(item.max_points for item in items)
    noun = count(len(items), "check")
    verb = "is" if len(items) == 1 else "are"
    return f"{noun} {verb} not named here; the totals hold their points, {share(points, most)}."


def plain(text: str) -> str:
    """The text without control, format and unassigned characters, but for new lines and tabs."""
    return "".join(_plain(char) for char in text.replace("\r\n", "\n"))


def _plain(char: str) -> str:
    return (
        char
        if char in "\n\t" or unicodedata.category(char)[0] != "C"
        else "\N{REPLACEMENT CHARACTER}"
    )


def amount(points: float) -> str:
    """Points as a person writes them: 3, 2.5, 0.25."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def share(points: float, most: float) -> str:
    """`2.5 of 4`."""
    return f"{amount(points)} of {amount(most)}"


def count(number: int, noun: str) -> str:
    """`1 check`, `2 checks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def chapter_title(number: int) -> str:
    """`07 The scheduler`, by the book's plan."""
    planned = load_plan().get(number)
    return f"{number:02d} {planned.title}" if planned else f"{number:02d}"
