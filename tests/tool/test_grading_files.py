"""What a grading writes: each format adds up, names nothing hidden, and lets no text break out."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from made_up_grading import ada, class_report, item, submission, submissions

from steplib.grading.formats.classroom import as_classroom
from steplib.grading.formats.gradescope import as_gradescope
from steplib.grading.formats.junit import as_junit
from steplib.grading.formats.page import as_class_page, as_student_page, percent
from steplib.grading.formats.table import as_csv
from steplib.grading.output import write_all
from steplib.grading.schema import SubmissionReport, load_class, load_submission

FILES = ["classroom.txt", "gradescope.json", "junit.xml", "report.html", "report.json"]


def page(report: SubmissionReport) -> str:
    return as_student_page(report, "2026-11-30T08:00:00Z")


def classroom(report: SubmissionReport) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(base64.b64decode(as_classroom(report), validate=False))
    return data


# points


@settings(max_examples=60, deadline=None)
@given(report=submissions)
def test_points_add_up_to_total_and_maximum_in_every_format(report: SubmissionReport) -> None:
    total = (report.points, report.max_points)

    scope = json.loads(as_gradescope(report))
    tests = scope["tests"]
    assert (sum(t["score"] for t in tests), sum(t["max_score"] for t in tests)) == total
    assert (scope["score"], scope["extra_data"]["max_points"]) == total

    room = classroom(report)
    assert (sum(t["score"] for t in room["tests"]), room["max_score"]) == total

    suites = list(ElementTree.fromstring(as_junit(report)).iter("testsuite"))
    assert (_property(suites, "points"), _property(suites, "max_points")) == total

    row = next(csv.DictReader(as_csv(class_report(report)).splitlines()))
    assert (float(row["points"]), float(row["max_points"])) == total
    chapters = [name for name in row if name.isdecimal()]
    assert sum(float(row[name]) for name in chapters) == report.points
    assert sum(float(row[f"{name} max"]) for name in chapters) == report.max_points

    assert f"<strong>{_amount(report.points)}</strong> of {_amount(report.max_points)} " in page(
        report
    )


def _property(suites: list[ElementTree.Element], name: str) -> float:
    found = [p.attrib["value"] for s in suites for p in s.iter("property") if p.get("name") == name]
    return sum(map(float, found))


def _amount(points: float) -> str:
    return f"{points:g}"


def test_a_bar_is_full_only_when_everything_was_earned() -> None:
    assert percent(999.75, 1000) == 99
    assert percent(1000, 1000) == percent(0, 0) == 100


def test_a_report_whose_sums_are_wrong_is_not_written(tmp_path: Path) -> None:
    wrong = submission("ada", [item("07.main", 1, 1)], points=2.0)
    with pytest.raises(AssertionError, match="the items give 1.0 of 1.0 points"):
        write_all(class_report(wrong), tmp_path)
    assert not list(tmp_path.iterdir())


# what each format looks like


def test_gradescope_gets_every_item_with_its_own_visibility() -> None:
    whole = json.loads(as_gradescope(ada()))
    assert whole["stdout_visibility"] == "hidden"
    assert whole["extra_data"]["seed"] == 11
    assert whole["extra_data"]["versions"]["torch"] == "2.11.0"
    tests = {test["extra_data"]["id"]: test for test in whole["tests"]}
    assert tests["07.tests.secret"]["visibility"] == "hidden"
    assert tests["07.tests.late"]["visibility"] == "after_due_date"
    assert tests["07.parity.tiny-qwen3"] == {
        "name": "parity tiny-qwen3",
        "number": "7.2",
        "score": 0.0,
        "max_score": 1.5,
        "status": "failed",
        "output": "failed: prompt 3, position 7\nexpected 5, got 6",
        "tags": ["chapter 07", "parity"],
        "visibility": "visible",
        "extra_data": {"id": "07.parity.tiny-qwen3", "verdict": "failed"},
    }
    assert tests["08.tests.gpu"]["status"] == "passed"


def test_the_classroom_reporter_finds_each_field_that_it_reads() -> None:
    whole = classroom(ada())
    assert whole["status"] == "fail"
    tests = whole["tests"]
    assert {test["status"] for test in tests} == {"pass", "fail", "error"}
    assert all(test["line_no"] == 0 and test["test_code"] == "" for test in tests)
    names = [test["name"] for test in tests]
    assert "07 parity tiny-qwen3 (0 of 1.5) failed: prompt 3, position 7" in names
    slow = next(test for test in tests if test["status"] == "error")
    assert slow["message"].startswith("08 tests slow (0 of 1) timed out: 10 s")


def test_no_line_of_the_classroom_log_is_a_command_to_its_runner() -> None:
    texts = [text for test in classroom(ada())["tests"] for text in (test["name"], test["message"])]
    lines = [line.lstrip() for text in texts for line in text.splitlines()]
    assert any("::notice" in line for line in lines)
    assert not [line for line in lines if line.startswith("::") or "##[" in line]


def test_the_classroom_text_fits_into_an_environment_variable_however_much_failed() -> None:
    items = [
        item(f"{place % 16:02d}.tests.{place}", 0, 0.25, title="x" * 60, message="y" * 2000)
        for place in range(900)
    ]
    report = submission("ada", items)
    assert len(as_classroom(report)) < 128 * 1024
    assert classroom(report)["max_score"] == 225
    assert len(classroom(report)["tests"]) == 16
    some = submission("ada", items[:200])
    assert len(as_classroom(some)) < 128 * 1024
    assert len(classroom(some)["tests"]) == 200


ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message", "type"},
    "system-out": set(),
}


def test_junit_has_the_shape_that_its_readers_expect() -> None:
    root = ElementTree.fromstring(as_junit(ada()))
    for element in root.iter():
        assert set(element.attrib) <= ALLOWED[element.tag], element.tag
    for suite in root:
        assert [child.tag for child in suite] == ["properties"] + ["testcase"] * (len(suite) - 1)
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert len(list(suite.iter(tag))) == int(suite.attrib[name])
        assert int(suite.attrib["tests"]) == len(suite) - 1
    assert [len(list(suite.iter("failure"))) for suite in root] == [1, 2]


def test_chapters_come_by_number_wherever_an_exercise_stands() -> None:
    items = [item("08.main", 1, 1), item("07.exercise", 1, 1)]
    report = submission("ada", items)
    tests = json.loads(as_gradescope(report))["tests"]
    assert [test["number"] for test in tests] == ["7.1", "8.1"]
    assert [suite.get("name") for suite in ElementTree.fromstring(as_junit(report))] == [
        "chapter 07", "chapter 08",
    ]  # fmt: skip
    assert page(report).index("07 The scheduler") < page(report).index("08 The cache manager")


def test_a_spreadsheet_finds_no_formula_and_one_row_a_student() -> None:
    rows = list(csv.DictReader(as_csv(class_report(ada(), submission("=b", []))).splitlines()))
    assert [row["name"] for row in rows] == ["ada", "'=b"]
    assert rows[0]["notes"].startswith("'=1+1")
    assert (rows[0]["07"], rows[0]["07 max"], rows[1]["07"]) == ("2.5", "4.75", "0")
    wide = as_csv(class_report(submission("\uff1dcmd", []))).splitlines()[1]
    assert wide.startswith("'\uff1dcmd,")


# what must not get out


def test_a_hidden_item_is_named_in_no_file_that_its_student_gets() -> None:
    report = ada()
    for text in (page(report), as_junit(report), json.dumps(classroom(report))):
        assert "SECRET" not in text and "secret" not in text
        assert "2 checks that this report doesn't name" in text.replace("&#39;", "'")
    assert "the totals hold their points, 0.5 of 1.25." in page(report)


def test_markup_and_control_characters_reach_no_page() -> None:
    report = ada()
    report.name = "<b>&\"'\x07"
    for text in (page(report), as_class_page(class_report(report))):
        assert "<script" not in text and "<b>&" not in text
        assert "&lt;script&gt;" in text
        assert not [c for c in text if c in "\x00\x07\x1b\u202e"]
    ElementTree.fromstring(as_junit(report))


def test_pages_load_nothing_from_elsewhere() -> None:
    for text in (page(ada()), as_class_page(class_report(ada()))):
        assert "http://" not in text and "https://" not in text and "src=" not in text
        assert "prefers-color-scheme: dark" in text
    assert 'href="students/ada/report.html"' in as_class_page(class_report(ada()))


def test_a_class_of_nobody_has_a_page() -> None:
    assert "0 submissions" in as_class_page(class_report())


# writing


def test_every_file_is_written_and_reads_back_as_it_was(tmp_path: Path) -> None:
    report = class_report(ada(), submission("bob", [item("07.main", 0, 2)]))
    write_all(report, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "grades.csv", "grades.json", "index.html", "students",
    ]  # fmt: skip
    assert sorted(p.name for p in (tmp_path / "students/ada").iterdir()) == FILES
    assert load_class(tmp_path / "grades.json") == report
    assert load_submission(tmp_path / "students/ada/report.json") == report.submissions[0]


def test_a_folder_of_an_earlier_grading_goes_and_a_foreign_one_stays(tmp_path: Path) -> None:
    write_all(class_report(ada(), submission("bob", []), submission("cy", [])), tmp_path)
    (tmp_path / "students/cy/mine.txt").write_text("kept")
    (tmp_path / "students/dora").mkdir()
    write_all(class_report(ada()), tmp_path)
    assert sorted(p.name for p in (tmp_path / "students").iterdir()) == ["ada", "cy", "dora"]
    assert [p.name for p in (tmp_path / "students/cy").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc"])
def test_a_name_that_leaves_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no folder's name"):
        write_all(class_report(submission(name, [])), tmp_path)
