"""A chapter of this book, graded by the command as an instructor runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from graded_book import laid

from steplib import starter
from steplib.book import Book
from steplib.cli import main
from steplib.grading.schema import load_class
from steplib.paths import ROOT

CHAPTER, FILE = 8, "minisgl/scheduler/cache.py"


@pytest.mark.slow
def test_honest_untouched_and_half_done(tmp_path: Path) -> None:
    """Everything, nothing, and something between; each by other prompts."""
    book = Book.load(ROOT)
    whole = {path: file.text() for path, file in book.reference(CHAPTER).files.items()}
    stubs = {path: data.decode() for path, data in starter.contents(book, CHAPTER).items()}
    half = whole | {FILE: stubs[FILE]}
    for name, files in (("honest", whole), ("untouched", stubs), ("half", half)):
        laid(tmp_path / "class" / name, files)
    command = ["grade", "--submissions", str(tmp_path / "class"), "--chapters", f"{CHAPTER:02d}"]
    assert main([*command, "--out", str(tmp_path / "out"), "-j", "2"]) == 0
    report = load_class(tmp_path / "out" / "grades.json")
    points = {one.name: one.points for one in report.submissions}
    assert points["honest"] == 100 and points["untouched"] == 0
    assert 0 < points["half"] < 60
    assert len({one.seed for one in report.submissions}) == 3
    assert not [one for one in report.submissions for item in one.items if item.verdict == "error"]
