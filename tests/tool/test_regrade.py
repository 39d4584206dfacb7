"""regrade: whose points differ between two gradings, in which items, and what else differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from made_up_grading import class_report, item, submission, submissions

from steplib.cli import main
from steplib.grading.output import write_all
from steplib.grading.regrade import compare, lines
from steplib.grading.schema import ClassReport, SubmissionReport


def before() -> ClassReport:
    return class_report(
        submission("ada", [item("07.main", 2, 2), item("07.tests.a", 0, 1, message="was\nwrong")]),
        submission("bob", [item("07.main", 2, 2), item("07.tests.a", 1, 1)]),
        submission("cy", [item("07.main", 0, 2), item("07.tests.a", 1, 1)]),
        submission("gone", [item("07.main", 2, 2)]),
    )


def after() -> ClassReport:
    new = class_report(
        submission("ada", [item("07.main", 2, 2), item("07.tests.a", 1, 1)], sha256="cd" * 32),
        submission("bob", [item("07.main", 2, 2), item("07.tests.a", 1, 1)], seed=12),
        submission(
            "cy",
            [item("07.main", 2, 2), item("07.tests.b", 0, 0.5, verdict="timed out")],
            versions={"python": "3.12.1", "torch": "2.12.0"},
            isolation="limits",
        ),
        submission("new", [item("07.main", 2, 2)]),
    )
    new.settings.chapters = [7, 8, 9]
    return new


def test_each_change_comes_with_what_could_explain_it(golden: Callable[[str, str], None]) -> None:
    golden("regrade", "\n".join(lines(compare(before(), after()))))


def test_points_that_moved_from_one_item_to_another_are_told() -> None:
    old = class_report(submission("ada", [item("07.a", 1, 1), item("07.b", 0, 1)]))
    new = class_report(submission("ada", [item("07.a", 0, 1), item("07.b", 1, 1)]))
    told = list(lines(compare(old, new)))
    assert told[0] == "ada  1 of 2, as before in total"
    assert told[1] == "  content, versions, seed and isolation are the same"


def test_one_reason_for_many_items_is_said_once() -> None:
    ids = ("07.a", "07.b", "07.c")
    old = class_report(submission("ada", [item(it, 0, 1, message="no Python") for it in ids]))
    new = class_report(submission("ada", [item(it, 1, 1) for it in ids]))
    told = [line.strip() for line in lines(compare(old, new)) if line.startswith("      ")]
    assert told == ["was no Python", "was as above", "was as above"]


@settings(max_examples=30, deadline=None)
@given(report=submissions)
def test_a_grading_is_the_same_as_itself(report: SubmissionReport) -> None:
    assert compare(class_report(report), class_report(report)).is_same


def test_the_command_takes_folders_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_all(before(), tmp_path / "old")
    write_all(after(), tmp_path / "new")
    assert main(["regrade", str(tmp_path / "old"), str(tmp_path / "new")]) == 1
    assert "2 of 3 students changed" in capsys.readouterr().out
    assert main(["regrade", str(tmp_path / "old"), str(tmp_path / "old/grades.json")]) == 0
    assert capsys.readouterr().out == "no score of 4 students changed\n"


def test_what_is_no_grading_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grades.json").write_text("{}")
    assert main(["regrade", str(tmp_path), str(tmp_path)]) == 2
    assert "is no result of grade" in capsys.readouterr().err
    assert main(["regrade", str(tmp_path / "none"), str(tmp_path)]) == 2
    assert "is missing; name the --out folder" in capsys.readouterr().err
