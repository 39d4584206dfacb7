"""The check of an answer: an exercise's pairs, on the book's tree, with the answer beside them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import pairs
from steplib.stage import staged

if TYPE_CHECKING:
    from steplib.book import Book
    from steplib.exercises.exercise import Exercise
    from steplib.pairs import TestFile, TestResult, TestRun
    from steplib.process import Runner

LIMIT = 60.0
"""Seconds that one probe of an exercise may take; it should need one or two."""


@dataclass(frozen=True)
class Attempt:
    """What the check of one answer found. count: the exercise's pairs."""

    run: TestRun
    count: int

    @property
    def is_passed(self) -> bool:
        """Every pair passed. A skipped one has not: the answer itself might have asked for it."""
        results = self.run.results
        every = len(results) == self.count and all(it.verdict == "passed" for it in results)
        return self.count > 0 and every and not self.run.violations

    @property
    def passed(self) -> int:
        return sum(result.verdict == "passed" for result in self.run.results)

    @property
    def first(self) -> tuple[int, TestResult] | None:
        """The first pair that did not pass, and its place, counted from 1."""
        numbered = enumerate(self.run.results, 1)
        return next(((i, it) for i, it in numbered if it.verdict != "passed"), None)

    @property
    def message(self) -> str:
        """The first failure's sentence; empty after a pass."""
        if self.run.violations:
            return self.run.violations[0]
        if self.first is not None:
            return self.first[1].detail
        return "" if self.is_passed else "not all of the checks ran"


def attempt(
    book: Book,
    exercise: Exercise,
    answer: bytes,
    runner: Runner,
    tests: TestFile | None = None,
) -> Attempt:
    """Run the exercise's probes beside `answer`, which they import under that name; judge here.

    tests: the exercise's pairs with other seeds than their own.
    """
    tests, tree = tests or exercise.pairs(), book.reference(exercise.chapter.number)
    with tempfile.TemporaryDirectory(prefix="answer-") as folder:
        file = Path(folder, "answer.py")
        file.write_bytes(answer)
        with staged(tree, book.root, [tests.path, file]) as stage:
            ran = pairs.run(tests, stage, runner, limit=LIMIT, apart=exercise.apart)
            return Attempt(ran, len(tests.pairs))
