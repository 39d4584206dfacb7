"""The files of a grading: written whole or not at all, and stale ones of an earlier one removed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from steplib.errors import UserError
from steplib.grading.formats.classroom import as_classroom
from steplib.grading.formats.gradescope import as_gradescope
from steplib.grading.formats.junit import as_junit
from steplib.grading.formats.page import as_class_page, as_student_page
from steplib.grading.formats.table import as_csv
from steplib.grading.schema import load_class
from steplib.paths import make_folder, write_atomically
from steplib.paths import write_all as write_files

if TYPE_CHECKING:
    from steplib.grading.schema import ClassReport, SubmissionReport

_OF_A_STUDENT: dict[str, Callable[[SubmissionReport], str]] = {
    "report.json": lambda report: report.model_dump_json(indent=1) + "\n",
    "gradescope.json": as_gradescope,
    "classroom.txt": as_classroom,
    "junit.xml": as_junit,
}
_PAGE = "report.html"
_STUDENTS = "students"
_TABLE, _CLASS_PAGE, _GRADES = "grades.csv", "index.html", "grades.json"
_OF_A_CLASS = (_TABLE, _CLASS_PAGE, _STUDENTS)


def prepare(out: Path, submissions: Path) -> None:
    """Make the folder, before hours are spent; UserError where reports and submissions would mix.

    Else the reports were taken for a student the next time, or lay among what a student handed in.
    """
    place, given = out.resolve(), submissions.resolve()
    if place.is_relative_to(given) or given.is_relative_to(place / _STUDENTS):
        raise UserError(f"--out {out} lies among the submissions; name a folder beside them.")
    foreign = [name for name in _OF_A_CLASS if (out / name).exists()]
    if foreign and not (out / _GRADES).exists():
        raise UserError(
            f"{out} holds {foreign[0]} of something else; name a new folder with --out."
        )
    make_folder(out)


def write_all(report: ClassReport, out: Path) -> None:
    """grades.json comes last: it names the folders that are this tool's own, to remove later."""
    for submission in report.submissions:
        _require_sums(submission)
    earlier = _names(out / _GRADES)
    contents = {out / _TABLE: as_csv(report), out / _CLASS_PAGE: as_class_page(report)}
    for submission in report.submissions:
        contents |= _student(submission, report.made_at, out)
    write_files(contents)
    for name in earlier - {submission.name for submission in report.submissions}:
        _remove(_folder(out, name))
    write_atomically(out / _GRADES, report.model_dump_json(indent=1) + "\n")


def _student(report: SubmissionReport, made_at: str, out: Path) -> dict[Path, str]:
    folder = _folder(out, report.name)
    files = {folder / name: written(report) for name, written in _OF_A_STUDENT.items()}
    return files | {folder / _PAGE: as_student_page(report, made_at)}


def _require_sums(report: SubmissionReport) -> None:
    points = sum(item.points for item in report.items)
    most = sum(item.max_points for item in report.items)
    assert (points, most) == (report.points, report.max_points), (
        f"{report.name}: the items give {points} of {most} points, "
        f"the report {report.points} of {report.max_points}"
    )
    over = [item.id for item in report.items if item.points > item.max_points]
    assert not over, f"{report.name}: more points than the maximum for {', '.join(over)}"


def _folder(out: Path, name: str) -> Path:
    assert name not in ("", ".", "..") and Path(name).name == name, f"no folder's name: {name!r}"
    return out / _STUDENTS / name


def _names(grades: Path) -> set[str]:
    """The students of the grading that wrote this file; nobody where it can't be read."""
    try:
        return {submission.name for submission in load_class(grades).submissions}
    except (OSError, ValidationError):
        return set()


def _remove(folder: Path) -> None:
    """Only the files that this tool writes; the folder stays if anything else is in it."""
    for name in (*_OF_A_STUDENT, _PAGE):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
