"""The base64 JSON that GitHub Classroom's grading reporter reads from a step's output.

The reporter prints it to a log that the student sees, and gets it in an environment variable, which
Linux limits to 128 KiB. Of a test that failed it prints the name alone, of one with an error the
message alone; so the name of the one and the message of the other say everything.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from steplib.grading.formats.view import (
    FAILS,
    NOT_SHOWN,
    Row,
    chapter_title,
    chapters,
    count,
    rows,
    share,
)

if TYPE_CHECKING:
    from steplib.grading.schema import SubmissionReport

_LIMIT = 96 * 1024
_LENGTHS = (400, 120, 0)
_COMMANDS = ("::", "##[")  # what makes a line of a log a command to the runner


def as_classroom(report: SubmissionReport) -> str:
    """One line of base64: with as much of the messages as fits, else one test a chapter."""
    for length in _LENGTHS:
        encoded = _encoded(report, [_test(row, length) for row in rows(report)])
        if len(encoded) <= _LIMIT:
            return encoded + "\n"
    return _encoded(report, [_test(row, 0) for row in _chapters(report)]) + "\n"


def _encoded(report: SubmissionReport, tests: list[dict[str, Any]]) -> str:
    whole = {
        "version": 1,
        "status": "pass" if all(test["status"] == "pass" for test in tests) else "fail",
        "max_score": report.max_points,
        "tests": tests,
    }
    return base64.b64encode(json.dumps(whole).encode()).decode("ascii")


def _test(row: Row, length: int) -> dict[str, Any]:
    status = _status(row)
    message = "" if status == "pass" else _harmless(row.message[:length])
    first = message.partition("\n")[0]
    name = f"{row.chapter:02d} {_harmless(row.title)}"
    told = f"{name} ({share(row.points, row.max_points)})"
    if row.verdict not in ("passed", NOT_SHOWN):
        told += f" {row.verdict}"
    return {
        "name": f"{told}: {first}" if status == "fail" and first else told,
        "status": status,
        "score": row.points,
        "message": f"{told}: {message}" if status == "error" else message,
        "test_code": "",
        "filename": "",
        "line_no": 0,  # 0 and nothing else keeps the reporter from naming a line
    }


def _status(row: Row) -> str:
    if row.verdict == NOT_SHOWN:
        return "pass" if row.points == row.max_points else "fail"
    if row.verdict == "passed":
        return "pass"
    return "fail" if row.verdict in FAILS else "error"


def _harmless(text: str) -> str:
    """No line that the runner could take for a command, such as one that forges the points."""
    lines = text.splitlines()
    starts = ["| " if line.lstrip().startswith(_COMMANDS) else "" for line in lines]
    joined = "\n".join(start + line for start, line in zip(starts, lines, strict=True))
    return joined.replace("##[", "# # [")


def _chapters(report: SubmissionReport) -> list[Row]:
    """One row a chapter."""
    found = []
    for number, items in chapters(report):
        points, most = sum(i.points for i in items), sum(i.max_points for i in items)
        title = f"{chapter_title(number)[3:]}, {count(len(items), 'check')}"
        verdict = "passed" if points == most else "failed"
        found.append(Row(f"{number:02d}", number, title, "", verdict, "", points, most))
    return found
