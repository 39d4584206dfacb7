"""Test pairs: probed in a child, judged here."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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


OnResult = Callable[[TestResult], None]


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
    def is_failed(self) -> bool:
        return self.verdict not in ("passed", "nothing ran")

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
    ended: threading.Event | None = None,
    on_result: OnResult | None = None,
    apart: str = "",
) -> TestRun:
    """Probe every pair (or those in `only`) on the stage and judge what comes back, at once.

    A child that dies or hangs costs the pair that was running; the rest goes on in a new one.
    ended: set from elsewhere, it ends the run, and the first failure sets it if that is to end it.
    apart: a module of the scratch folder that runs in a process of its own.
    """
    ended = ended or threading.Event()
    waiting = [pair for pair in tests.pairs if only is None or pair.name in only]
    judges = load(tests.path, stage.root) if waiting else None
    whole = TestRun()
    while waiting and judges is not None and not ended.is_set():
        body = {"module": tests.path.stem, "probes": [[p.name, p.seed] for p in waiting],
                "apart": apart}  # fmt: skip
        job = replace(stage.job("probes", body, coverage=coverage), ended=ended)
        bench = _Bench(waiting, judges, ended, stop_at_first, on_result)
        outcome = runner.run(job, limit, bench.put)
        results = bench.results(outcome)
        whole.results += results
        _gather(whole, outcome)
        waiting = waiting[len(results) :]
        if outcome.ending == "forged" or (stop_at_first and whole.is_failed):
            break
    return whole


def _gather(whole: TestRun, outcome: Outcome) -> None:
    for file, lines in outcome.end["lines"].items():
        whole.lines.setdefault(file, set()).update(lines)
    whole.violations += [v for v in outcome.end["violations"] if v not in whole.violations]
    whole.modules |= outcome.end["modules"]
    whole.output += outcome.stdout + outcome.stderr


@dataclass
class _Bench:
    """Judges each answer of one child as it comes. ended: what the first failure sets."""

    waiting: list[Pair]
    judges: ModuleType
    ended: threading.Event
    stop_at_first: bool
    on_result: OnResult | None
    answers: dict[str, TestResult] = field(default_factory=dict)

    def put(self, record: Record) -> None:
        """Take in one record of the child; what comes after the end of the run is left out."""
        if self.ended.is_set():
            return
        pair = next((pair for pair in self.waiting if pair.name == record.get("name")), None)
        if pair is None or record["kind"] not in ("probe", "skip", "error"):
            return
        result = self.answers[pair.name] = _judged(pair, record, self.judges)
        if self.stop_at_first and result.verdict not in ("passed", "skipped"):
            self.ended.set()
        if self.on_result is not None:
            self.on_result(result)

    def results(self, outcome: Outcome) -> list[TestResult]:
        """A verdict for each pair that this child got to, in order; at least one if not ended."""
        waiting, answers = self.waiting, self.answers
        if outcome.ending == "forged":
            return [TestResult(p.name, "forged", outcome.detail, bugs=p.bugs) for p in waiting]
        if self.ended.is_set():
            return [answers[pair.name] for pair in waiting if pair.name in answers]
        started = {r.get("name") for r in outcome.of_kind("start")}
        broken = next((r for r in outcome.of_kind("error") if "name" not in r), None)
        results = []
        for pair in waiting:
            results.append(answers.get(pair.name) or _unanswered(pair, outcome, broken))
            is_last = not broken and outcome.ending != "done" and pair.name in started
            if is_last and pair.name not in answers:
                break
        if outcome.ending != "done" and all(pair.name in answers for pair in waiting):
            last = waiting[-1]  # the child left by itself after its last answer: that counts not
            results[-1] = TestResult(last.name, outcome.ending, outcome.detail, bugs=last.bugs)
        return results


def _unanswered(pair: Pair, outcome: Outcome, broken: Record | None) -> TestResult:
    """The verdict on a pair of which no answer came. broken: what kept the whole file from it."""
    if broken:
        return TestResult(pair.name, "crashed", told(broken), bugs=pair.bugs)
    if outcome.ending == "done":
        return TestResult(pair.name, "no record", "no record came for this test", bugs=pair.bugs)
    return TestResult(pair.name, outcome.ending, outcome.detail, bugs=pair.bugs)


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
