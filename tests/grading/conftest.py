"""What the tests of grading share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tool"))

from goldens import golden as golden  # noqa: E402
from graded_book import GradedBook  # noqa: E402

from steplib.grading import run, submission  # noqa: E402


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> GradedBook:
    """One book for all; no test changes it."""
    return GradedBook(tmp_path_factory.mktemp("graded") / "book")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits, for what never ends."""
    monkeypatch.setattr(run, "PROBE_LIMIT", 1.0)
    monkeypatch.setattr(run, "MAIN_LIMIT", 1.0)
    monkeypatch.setattr(run, "GENERATE_LIMIT", 1.0)
    monkeypatch.setattr(submission, "PER_CHAPTER", 30.0)
