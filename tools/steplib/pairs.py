"""Test pairs: probed in a child, judged here."""

from __future__ import annotations

import importlib.util
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from steplib.errors import UserError
from steplib.outcome import Outcome, Record
from steplib.process import Runner
from steplib.stage import Stage, fakes, shared_files
from steplib.testfiles import Pair, TestFile, read

__all__ = ["Pair", "TestFile", "TestResult", "TestRun", "judge", "load", "read", "run", "told"]

Verdict = Literal[
    "passed", "failed", "crashed", "timed out", "skipped", "no record", "forged", "nothing ran"
]
PROBE_LIMIT = 120.0
"""Seconds that one probe may take."""

_judging = threading.RLock()  # judges of one process share the module `pairs` and its counter


@dataclass(frozen=True)
class TestResult:
    """The verdict on one pair; a failure carries what was expected and got, as text."""

    __test__ = False

    name: str
    verdict: Verdict
    detail: str = ""
    expected: str | None = None
    got: str | None = None
    bugs: tuple[str, ...] = ()


@dataclass
class TestRun:
    """One file's pairs on one stage. violations: what the child tried in spite of the rules.

    modules: for each module of the tree that was loaded its path and its sha256.
    """

    __test__ = False

    results: list[TestResult] = field(default_factory=list)
    lines: dict[str, set[int]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    modules: dict[str, list[str]] = field(default_factory=dict)
    output: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of all verdicts; only skips, or no pair at all, is "nothing ran"."""
        bad = [r.verdict for r in self.results if r.verdict not in ("passed", "skipped")]
        if bad or self.violations:
            return bad[0] if bad else "failed"
        return "passed" if any(r.verdict == "passed" for r in self.results) else "nothing ran"


def run(
    tests: TestFile,
    stage: Stage,
    runner: Runner,
    *,
    coverage: bool = False,
    limit: float = PROBE_LIMIT,
    only: frozenset[str] | None = None,
    stop_at_first: bool = False,
) -> TestRun:
    """Probe every pair (or those in `only`) on the stage and judge what comes back.

    A child that dies or hangs costs the pair that was running; the rest goes on in a new one.
    """
    waiting = [pair for pair in tests.pairs if only is None or pair.name in only]
    judges = load(tests.path, stage.root) if waiting else None
    whole = TestRun()
    while waiting and judges is not None:
        body = {"module": tests.path.stem, "probes": [[p.name, p.seed] for p in waiting]}
        outcome = runner.run(stage.job("probes", body, coverage=coverage), limit)
        results = _results(waiting, outcome, judges)
        whole.results += results
        _gather(whole, outcome)
        waiting = waiting[len(results) :]
        if outcome.ending == "forged" or (stop_at_first and whole.verdict != "passed"):
            break
    return whole


def _gather(whole: TestRun, outcome: Outcome) -> None:
    for file, lines in outcome.end["lines"].items():
        whole.lines.setdefault(file, set()).update(lines)
    whole.violations += [v for v in outcome.end["violations"] if v not in whole.violations]
    whole.modules |= outcome.end["modules"]
    whole.output += outcome.stdout + outcome.stderr


def _results(waiting: list[Pair], outcome: Outcome, judges: ModuleType) -> list[TestResult]:
    """A verdict for each pair that this child got to, in order; at least one."""
    if outcome.ending == "forged":
        return [TestResult(p.name, "forged", outcome.detail, bugs=p.bugs) for p in waiting]
    answers = {r["name"]: r for r in outcome.records if r["kind"] in ("probe", "skip", "error")
               and "name" in r}  # fmt: skip
    started = {r.get("name") for r in outcome.of_kind("start")}
    broken = next((r for r in outcome.of_kind("error") if "name" not in r), None)
    results = []
    for pair in waiting:
        if pair.name in answers:
            results.append(_judged(pair, answers[pair.name], judges))
        elif broken:
            results.append(TestResult(pair.name, "crashed", told(broken), bugs=pair.bugs))
        elif outcome.ending == "done":
            detail = "no record came for this test"
            results.append(TestResult(pair.name, "no record", detail, bugs=pair.bugs))
        else:
            results.append(TestResult(pair.name, outcome.ending, outcome.detail, bugs=pair.bugs))
            if pair.name in started:
                break
    if outcome.ending != "done" and all(pair.name in answers for pair in waiting):
        last = waiting[-1]  # the child left by itself after its last answer, which then counts not
        results[-1] = TestResult(last.name, outcome.ending, outcome.detail, bugs=last.bugs)
    return results


def told(error: Record) -> str:
    """An "error" record as one line: type, message, place."""
    place = f" ({error['place']})" if error["place"] else ""
    return f"{error['error']}: {error['message']}{place}"


def _judged(pair: Pair, answer: Record, judges: ModuleType) -> TestResult:
    if answer["kind"] == "skip":
        return TestResult(pair.name, "skipped", answer["reason"], bugs=pair.bugs)
    if answer["kind"] == "error":
        return TestResult(pair.name, "failed", f"it raised {told(answer)}", bugs=pair.bugs)
    return judge(pair, answer["got"], judges)


def judge(pair: Pair, got: Any, judges: ModuleType) -> TestResult:
    """The verdict on what a probe gave back. A judge that compares nothing is a failure."""
    shared = sys.modules["pairs"]
    with _judging:
        before = shared.comparisons
        try:
            getattr(judges, "judge_" + pair.name)(pair.seed, got)
        except shared.Mismatch as error:
            expected, found = shared.shown(error.expected), shared.shown(error.got)
            return TestResult(pair.name, "failed", error.what, expected, found, pair.bugs)
        except Exception as error:
            said = f"the judge stopped with {type(error).__name__}: {error}"
            return TestResult(pair.name, "failed", said, got=shared.shown(got), bugs=pair.bugs)
        if shared.comparisons == before:
            detail = f"judge_{pair.name} compared nothing"
            return TestResult(pair.name, "failed", detail, got=shared.shown(got), bugs=pair.bugs)
    return TestResult(pair.name, "passed", bugs=pair.bugs)


def load(path: Path, root: Path) -> ModuleType:
    """Import a test file here, for its judges; `pairs` and fakes are the book's own."""
    with _judging:
        if "pairs" not in sys.modules:
            _import("pairs", shared_files(root)[1])
        for fake in fakes(root, [path]):  # another book may have one of the same name
            if getattr(sys.modules.get(fake.stem), "__file__", None) != str(fake):
                _import(fake.stem, fake)
        return _import(f"judges.{path.stem}", path)


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{path.name} can't be imported: {error}; mend it.") from None
    return module
