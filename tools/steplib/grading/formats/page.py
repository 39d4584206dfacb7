"""The pages of a grading: one for each student, and one for the class; each a file by itself."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from steplib.grading.formats import overview, view
from steplib.grading.formats.view import NOT_SHOWN, Row
from steplib.webpages import templates

if TYPE_CHECKING:
    from steplib.grading.schema import ClassReport, SubmissionReport

_TEMPLATES = Path(__file__).parent / "templates"


def as_student_page(report: SubmissionReport, made_at: str) -> str:
    """What the student gets: total, chapters, tasks, and what was expected where it failed."""
    shown = view.rows(report)
    chapters = [_chapter(number, shown) for number, _ in view.chapters(report)]
    return (
        environment()
        .get_template("student.html")
        .render(report=report, made_at=made_at, chapters=chapters, notice=view.notice(report))
    )


def as_class_page(report: ClassReport) -> str:
    """What the instructor gets: students by chapters, how the totals lie, what failed most."""
    return (
        environment()
        .get_template("class.html")
        .render(
            report=report,
            students=overview.students(report),
            chapters=overview.chapters(report),
            bins=overview.distribution(report),
            hardest=overview.hardest(report),
            notes=overview.notes(report),
            middle=overview.middle(report),
            summary=overview.summary(report),
        )
    )


def _chapter(number: int, shown: list[Row]) -> dict[str, Any]:
    own = [row for row in shown if row.chapter == number]
    tasks = [_task(name, list(group)) for name, group in groupby(own, lambda row: row.task)]
    return {"number": number, "tasks": tasks, **_sums(own)}


def _task(name: str, group: list[Row]) -> dict[str, Any]:
    done = sum(row.verdict == "passed" for row in group)
    is_open = any(row.verdict not in ("passed", NOT_SHOWN) for row in group)
    is_withheld = name == NOT_SHOWN
    return {"name": name, "rows": group, "done": done, "is_open": is_open,
            "is_withheld": is_withheld, **_sums(group)}  # fmt: skip


def _sums(group: list[Row]) -> dict[str, float]:
    points, most = sum(row.points for row in group), sum(row.max_points for row in group)
    return {"points": points, "max_points": most}


@cache
def environment() -> Environment:
    """Everything is escaped."""
    made = templates(_TEMPLATES, finalize=_finalized)
    made.filters |= {
        "amount": view.amount,
        "count": view.count,
        "chapter": view.chapter_title,
        "percent": percent,
        "moment": moment,
        "link": lambda name: quote(f"students/{name}/report.html"),
    }
    return made


def _finalized(value: object) -> object:
    """Text without control characters; Markup is the templates' own."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return view.plain(str(value)) if is_text else value


def percent(points: float, most: float) -> int:
    """0 to 100; 100 where there was nothing to earn, and only for everything."""
    return int(100 * points / most) if most else 100


def moment(made_at: str) -> str:
    """`2026-11-30 08:00 UTC` of ISO 8601."""
    return f"{made_at[:16].replace('T', ' ')} UTC"
