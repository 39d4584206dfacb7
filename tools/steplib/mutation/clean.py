"""The chapter's check without any mutant: which lines each probe runs, and how long all takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import pairs
from steplib.errors import UserError

if TYPE_CHECKING:
    from types import ModuleType

    from steplib.mutation.mutant import Mutant
    from steplib.outcome import Outcome, Record
    from steplib.process import Runner
    from steplib.stage import Stage
    from steplib.testfiles import Pair

LIMIT = 60.0
Lines = dict[str, set[int]]


@dataclass(frozen=True)
class Probe:
    """A pair, what its probe runs (lines by file), and its seconds without a mutant."""

    pair: Pair
    file: Path
    judges: ModuleType
    lines: Lines
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.file.name}::{self.pair.name}"

    def reaches(self, mutant: Mutant) -> bool:
        """Whether it runs a line of the mutant; of one at import, any line of its file."""
        ran = self.lines.get(mutant.path, set())
        return bool(ran) if mutant.is_at_import else bool(ran & mutant.around)


@dataclass
class _Clock:
    """Notes when each probe begins and ends."""

    begun: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, record: Record) -> None:
        name = record.get("name", "")
        if record["kind"] == "start":
            self.begun[name] = time.monotonic()
        elif name in self.begun:
            self.seconds[name] = time.monotonic() - self.begun[name]


@dataclass(frozen=True)
class Clean:
    """The probes of a chapter's test files, quickest first."""

    stage: Stage
    runner: Runner
    files: list[Path]

    @cached_property
    def probes(self) -> list[Probe]:
        return sorted((p for file in self.files for p in self._of(file)), key=lambda p: p.seconds)

    def _of(self, file: Path) -> list[Probe]:
        tests, clock = pairs.read(file), _Clock()
        wanted = [[p.name, p.seed] for p in tests.pairs]
        body = {"module": file.stem, "probes": wanted, "by_probe": True}
        job = self.stage.job("probes", body, coverage=True)
        outcome = self.runner.run(job, LIMIT, clock)
        judges = pairs.load(file, self.stage.root)
        _must_pass(tests.pairs, outcome, judges, file.name)
        ran = outcome.end.get("by_probe", {})
        return [
            Probe(pair, file, judges, _sets(ran.get(pair.name, {})), clock.seconds[pair.name])
            for pair in tests.pairs
        ]


def _sets(lines: dict[str, list[int]]) -> Lines:
    return {path: set(numbers) for path, numbers in lines.items()}


def _must_pass(tests: tuple[Pair, ...], outcome: Outcome, judges: ModuleType, file: str) -> None:
    """Where a pair fails without a mutant, its failure would say nothing about one."""
    if outcome.ending != "done":
        raise UserError(f"{file} doesn't come to its end: {outcome.detail}; mend it first.")
    answers = {r["name"]: r for r in outcome.records if "name" in r and r["kind"] != "start"}
    for pair in tests:
        if (said := failure(pair, answers.get(pair.name), judges)) is not None:
            raise UserError(f"{file}::{pair.name} fails without a mutant: {said}; mend it first.")


def failure(pair: Pair, answer: Record | None, judges: ModuleType) -> str | None:
    """What is wrong with a probe's answer; None for a good one, and for a skip."""
    if answer is None:
        return "no record came for this test"
    if answer["kind"] == "error":
        return f"it raised {pairs.told(answer)}"
    if answer["kind"] == "skip":
        return None
    result = pairs.judge(pair, answer["got"], judges)
    return None if result.verdict == "passed" else result.detail
