"""Gradescope's results.json, as its autograder specification has it.

Gradescope hides by itself what a test's visibility says, so every item is in the file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from steplib.grading.formats.view import chapters, plain, row

if TYPE_CHECKING:
    from steplib.grading.schema import Item, SubmissionReport


def as_gradescope(report: SubmissionReport) -> str:
    """The whole report. Texts are given as plain text, so that nothing in them is markup."""
    whole = {
        "score": report.points,
        "execution_time": round(report.seconds, 2),
        "output": plain("\n".join(report.notes)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": _facts(report),
        "tests": [
            _test(item, f"{number}.{place}")
            for number, items in chapters(report)
            for place, item in enumerate(items, 1)
        ],
    }
    return json.dumps(whole, indent=1) + "\n"


def _facts(report: SubmissionReport) -> dict[str, Any]:
    kept = {"name", "sha256", "seed", "chapters", "exercises", "versions", "isolation"}
    return {**report.model_dump(include=kept), "max_points": report.max_points}


def _test(item: Item, number: str) -> dict[str, Any]:
    shown = row(item)
    return {
        "name": shown.title,
        "number": number,
        "score": item.points,
        "max_score": item.max_points,
        "status": "passed" if item.verdict == "passed" else "failed",
        "output": shown.message if item.verdict == "passed" else _told(item.verdict, shown.message),
        "tags": [f"chapter {item.chapter:02d}", shown.task],
        "visibility": item.visibility,
        "extra_data": {"id": shown.id, "verdict": item.verdict},
    }


def _told(verdict: str, message: str) -> str:
    return f"{verdict}: {message}" if message else verdict
