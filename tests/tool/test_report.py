"""The report: for people, as JSON and as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.etree import ElementTree

from steplib import report
from steplib.facts import ChapterResults, Finding, Report, Result, failed

Golden = Callable[[str, str], None]


def chapter(number: int, *results: Result) -> ChapterResults:
    return ChapterResults(number, f"{number:02d}-made-up", "Made up", list(results))


def sound() -> list[Result]:
    return [
        Result("manifest", summary="3 files"),
        Result("main", summary="4 tokens", is_cached=True),
        Result("parity", summary="384 tokens equal on 1 model, 0 near ties", is_cached=True),
    ]


def broken() -> list[Result]:
    many = [Finding(f"finding {i}") for i in range(7)]
    parity = failed(
        "parity",
        Finding("tiny: prompt 0, token 3: another token", expected="5", got="7"),
        next_command="python tools/steps.py parity 01 --model tiny",
    )
    return [
        Result("manifest"),
        parity,
        failed("tests", *many, verdict="timed out", next_command="pytest -q tests/test_x.py"),
    ]


def test_all_passed(golden: Golden) -> None:
    found = Report([chapter(0, *sound())], ["tiny"], ["a note"], seconds=1.23, earlier_forms=2)
    assert found.is_passed
    golden("report_passed", "\n".join(report.lines(found)))


def test_the_first_failure_in_book_order_is_told_in_full(golden: Golden) -> None:
    chapters = [chapter(0, *sound()), chapter(1, *broken()), chapter(2, *broken()[2:])]
    found = Report(chapters, ["tiny"], seconds=61.0)
    assert not found.is_passed
    golden("report_failed", "\n".join(report.lines(found)))


def test_more_findings_than_one_wants_to_read_are_counted(golden: Golden) -> None:
    golden("report_many", "\n".join(report.lines(Report([chapter(1, *broken()[2:])], seconds=1))))


def test_require_real_alone_fails_the_run(golden: Golden) -> None:
    notes = ["real model NOT checked: smollm2-135m isn't here"]
    found = Report([chapter(0, *sound())], ["tiny"], notes, is_real_missing=True, seconds=1.0)
    assert not found.is_passed
    golden("report_real_missing", "\n".join(report.lines(found)))


def test_nothing_checked_is_no_pass() -> None:
    assert not Report([]).is_passed
    assert not Report([chapter(0)]).is_passed


def test_json_holds_every_fact_but_the_executed_lines() -> None:
    main = Result("main", data={"lines": {"minisgl/core.py": [1]}, "tokens": 4})
    found = Report([chapter(0, main), chapter(1, *broken())], ["tiny"], ["a note"])
    facts = json.loads(report.as_json(found))
    assert (facts["passed"], facts["models"], facts["notes"]) == (False, ["tiny"], ["a note"])
    [first, second] = facts["chapters"]
    assert first["checks"][0]["data"] == {"tokens": 4}
    assert second["page"] == "docs/chapters/01-made-up.md"
    assert second["checks"][1]["findings"][0]["expected"] == "5"
    assert second["checks"][1]["next_command"].endswith("--model tiny")


def test_junit_has_a_suite_a_chapter_and_holds_any_text() -> None:
    odd = failed("main", Finding("printed \x1b[31m<red> & more\x00"))
    root = ElementTree.fromstring(report.as_junit(Report([chapter(0, odd), chapter(1, *broken())])))
    counts = [(s.get("name"), s.get("tests"), s.get("failures")) for s in root]
    assert counts == [("00-made-up", "1", "1"), ("01-made-up", "3", "2")]
    assert "<red> & more" in str(root[0][0][0].get("message"))
