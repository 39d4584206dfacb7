"""What a check found: results by chapter, in book order, as text reports and files need them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from steplib.errors import Problem


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. expected and got are shown when there are any."""

    message: str
    where: str = ""
    expected: str | None = None
    got: str | None = None
    mend: str = ""

    @classmethod
    def of(cls, problem: Problem) -> Finding:
        """A Problem of the other checks as a finding."""
        return cls(problem.message, problem.where, mend=problem.mend)


@dataclass
class Result:
    """One check of one chapter. data: facts that other checks and the JSON report use.

    read: the place in the chapter's page, where it is known more closely than the page.
    """

    check: str
    verdict: str = "passed"
    summary: str = ""
    findings: list[Finding] = field(default_factory=list)
    next_command: str = ""
    read: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    is_cached: bool = False

    @property
    def is_passed(self) -> bool:
        return self.verdict == "passed"

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON; executed lines are left out."""
        data = {name: value for name, value in self.data.items() if name != "lines"}
        return {**asdict(self), "data": data}


def failed(check: str, *findings: Finding, verdict: str = "failed", **rest: Any) -> Result:
    """A result that isn't a pass."""
    return Result(check, verdict, findings=list(findings), **rest)


@dataclass
class ChapterResults:
    """The checks of one chapter, in book order. says: for each check its name in words."""

    number: int
    name: str
    title: str
    results: list[Result] = field(default_factory=list)
    says: dict[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Where the handbook treats it."""
        return f"docs/chapters/{self.name}.md"

    @property
    def is_passed(self) -> bool:
        return bool(self.results) and all(result.is_passed for result in self.results)

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results)


@dataclass
class Report:
    """One run of check. notes: lines that a reader must see, such as that no real model is here.

    earlier_forms: how many the book keeps; None for a reader's files.
    """

    chapters: list[ChapterResults]
    models: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_real_missing: bool = False
    seconds: float = 0.0
    earlier_forms: int | None = 0

    @property
    def is_passed(self) -> bool:
        """Every check of every chapter passed, and there was at least one."""
        every = all(chapter.is_passed for chapter in self.chapters)
        return bool(self.chapters) and every and not self.is_real_missing

    def first_failure(self) -> tuple[ChapterResults, Result] | None:
        """The first failed check in book order."""
        return next(iter(self.failures()), None)

    def failures(self) -> list[tuple[ChapterResults, Result]]:
        """All failed checks in book order."""
        return [(c, r) for c in self.chapters for r in c.results if not r.is_passed]
