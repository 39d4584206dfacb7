"""The results of a grading, as data: the one schema that every report is made from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Verdict = Literal["passed", "failed", "error", "timed out", "missing"]
Visibility = Literal["visible", "hidden", "after_due_date", "after_published"]
Isolation = Literal["bubblewrap", "namespaces", "limits"]

_HALF = re.compile("[\ud800-\udfff]")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        """Halves of characters, such as an error's message may hold, fit into no file."""
        if isinstance(value, str):
            return _HALF.sub("\N{REPLACEMENT CHARACTER}", value)
        return [cls._is_text(item) for item in value] if isinstance(value, list) else value


class Item(_Record):
    """One thing that earns points.

    id: "07.main", "07.parity.tiny-qwen3", "07.tests.NAME" or "exercise.ID". task: what of the
    chapter it is about. message: what was expected and what came, cut. What this machine
    can't run for anybody is no item.
    """

    id: str
    chapter: int
    title: str
    task: str
    points: float = Field(default=0.0, ge=0)
    max_points: float = Field(ge=0)
    verdict: Verdict = "error"
    message: str = ""
    visibility: Visibility = "visible"


class SubmissionReport(_Record):
    """What one submission earned. sha256: of its content. max_points: the same for everybody."""

    name: str
    sha256: str
    seed: int
    chapters: list[int]
    exercises: list[str]
    items: list[Item]
    notes: list[str] = []
    versions: dict[str, str] = {}
    isolation: Isolation = "limits"
    seconds: float = 0.0
    points: float = 0.0
    max_points: float

    def by_chapter(self) -> dict[int, list[Item]]:
        """The items of each chapter, in order."""
        found: dict[int, list[Item]] = {}
        for item in self.items:
            found.setdefault(item.chapter, []).append(item)
        return found


class Settings(_Record):
    """What was graded. seed: from it and a submission's name comes the submission's own seed."""

    chapters: list[int]
    exercises: list[str]
    seed: int


class ClassReport(_Record):
    """All submissions of one grading, by name. made_at: ISO 8601, UTC."""

    submissions: list[SubmissionReport]
    settings: Settings
    made_at: str


def load_class(path: Path) -> ClassReport:
    """A grades.json; pydantic's ValidationError where it is none."""
    return ClassReport.model_validate_json(path.read_bytes())


def load_submission(path: Path) -> SubmissionReport:
    """A report.json."""
    return SubmissionReport.model_validate_json(path.read_bytes())
