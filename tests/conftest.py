"""Under pytest, each pair of a test_chNN file is one test, probed on the finished package.

The probes of a file run in one child, through the same code that `steps.py check` uses.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from steplib import pairs  # noqa: E402
from steplib.errors import UserError  # noqa: E402

if TYPE_CHECKING:
    from steplib.pairs import Pair, TestResult
    from steplib.process import Runner

_CHAPTER_FILE = re.compile(r"test_ch\d\d_\w+\.py")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> PairFile | None:
    if _CHAPTER_FILE.fullmatch(module_path.name):
        return PairFile.from_parent(parent, path=module_path)
    return None


class PairFile(pytest.File):
    """A chapter's test file."""

    def collect(self) -> Iterator[PairItem]:
        try:
            tests = pairs.read(self.path)
        except UserError as error:
            raise self.CollectError(str(error)) from None
        for pair in tests.pairs:
            yield PairItem.from_parent(self, name=pair.name, pair=pair)

    @cached_property
    def results(self) -> dict[str, TestResult]:
        """The verdicts on the selected pairs, all from one run."""
        from steplib.book import Book
        from steplib.stage import staged

        book = Book.load(ROOT)
        chosen = {
            i.name for i in self.session.items if isinstance(i, PairItem) and i.parent is self
        }
        with staged(book.tree(book.last.number), ROOT, [self.path]) as stage:
            done = pairs.run(pairs.read(self.path), stage, runner(), only=frozenset(chosen))
        if done.violations:
            pytest.fail(done.violations[0], pytrace=False)
        return {result.name: result for result in done.results}


@cache
def runner() -> Runner:
    """One for the whole session."""
    from steplib.models import models_dir
    from steplib.warm import quick_runner

    return quick_runner(models_dir())


class PairItem(pytest.Item):
    """One pair."""

    def __init__(self, *, pair: Pair, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.pair = pair

    def runtest(self) -> None:
        assert isinstance(self.parent, PairFile)
        result = self.parent.results[self.name]
        if result.verdict == "skipped":
            pytest.skip(result.detail)
        if result.verdict != "passed":
            raise PairFailed(result)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        if not isinstance(excinfo.value, PairFailed):
            return str(super().repr_failure(excinfo))
        result = excinfo.value.args[0]
        lines = [f"{result.verdict}: {result.detail}"]
        lines += [f"  expected {result.expected}"] if result.expected is not None else []
        lines += [f"  got      {result.got}"] if result.got is not None else []
        return "\n".join([*lines, f"  seed     {self.pair.seed}"])

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.pair.line - 1, f"{self.path.stem}::{self.name}"


class PairFailed(Exception):
    """Carries the TestResult of a pair that did not pass."""
