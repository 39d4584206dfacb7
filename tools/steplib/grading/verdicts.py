"""Verdicts: what came out of the sandbox, held against what should have. Runs no student's code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steplib import mains
from steplib.facts import Finding, Result
from steplib.outcome import Outcome

if TYPE_CHECKING:
    from steplib.grading.schema import Item, Verdict
    from steplib.pairs import TestResult

_CUT = 600
_NEAR = 1e-3  # logits; far above the noise between two orders of summation on a tiny model

_TABLE: dict[str, Verdict] = {"passed": "passed", "failed": "failed", "timed out": "timed out"}


@dataclass(frozen=True)
class Mark:
    """A verdict and its message."""

    verdict: Verdict
    message: str = ""

    def on(self, item: Item) -> None:
        """Write it on an item; only a pass earns its points."""
        item.verdict, item.message = self.verdict, self.message
        item.points = item.max_points if self.verdict == "passed" else 0.0


def of_test(result: TestResult) -> Mark:
    """A pair's verdict. Skipping is no way out: what counts is what the book's own code runs."""
    if result.verdict == "skipped":
        return Mark("failed", f"it was skipped, and the book's own code runs it: {result.detail}")
    verdict = _TABLE.get(result.verdict, "failed")
    kind = "" if result.verdict in _TABLE else f"{result.verdict}: "
    return Mark(verdict, told(Finding(kind + result.detail, "", result.expected, result.got)))


def of_result(result: Result) -> Mark:
    """A check's verdict, with its first finding."""
    if result.is_passed:
        return Mark("passed", result.summary)
    finding = result.findings[0] if result.findings else Finding(result.verdict)
    return Mark(_TABLE.get(result.verdict, "failed"), told(finding))


def of_main(
    outcome: Outcome, hashes: dict[str, str], model: str, wanted: dict[str, Any], is_whole: bool
) -> Mark:
    """Main ran, on this package, and what it reported is what the book's own code reports.

    wanted: the "generation" record of the book's. is_whole: main was run, and not generate alone.
    """
    result = mains.judged(outcome, hashes, model) if is_whole else _generated(outcome)
    if not result.is_passed:
        return of_result(result)
    got = outcome.of_kind("generation")[-1]
    if (difference := _difference(got, wanted)) is not None:
        return Mark("failed", told(difference))
    return Mark("passed", f"counters: {_counters(got)}")


def _generated(outcome: Outcome) -> Result:
    errors, answers = outcome.of_kind("error"), outcome.of_kind("generation")
    if outcome.ending == "done" and answers and not errors:
        return Result("main")
    said = outcome.detail or (errors[0]["message"] if errors else "generate gave nothing")
    ending = outcome.ending if outcome.ending != "done" else "failed"
    return Result("main", ending, findings=[Finding(f"generate: {said}")])


def _difference(got: dict[str, Any], wanted: dict[str, Any]) -> Finding | None:
    """The first difference in tokens, up to near ties; then a counter that stayed at zero."""
    if [len(row) for row in got["token_ids"]] != [len(row) for row in wanted["token_ids"]]:
        return Finding("main reported another number of tokens", "",
                       str([len(row) for row in wanted["token_ids"]]),
                       str([len(row) for row in got["token_ids"]]))  # fmt: skip
    for number, (row, right) in enumerate(zip(got["token_ids"], wanted["token_ids"], strict=True)):
        for place, (token, best) in enumerate(zip(row, right, strict=True)):
            (_, first), (_, second) = wanted["top2"][number][place]
            if token == best:
                continue
            if math.isclose(first, second, abs_tol=_NEAR):
                break
            what = f"main, prompt {number}, token {place}: another token"
            return Finding(what, "", str(best), str(token))
    for name, count in wanted["counters"].items():
        if count > 0 and not got["counters"].get(name, 0) > 0:
            return Finding(f'the counter "{name}" stayed at zero, or is missing',
                           "", f"more than 0, such as {count}", _counters(got))  # fmt: skip
    return None


def _counters(generation: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in generation["counters"].items()) or "none"


def told(finding: Finding) -> str:
    """A finding as lines of text, cut where it gets too long to read."""
    lines = [finding.message]
    if finding.expected is not None or finding.got is not None:
        lines += [f"expected {finding.expected}", f"got      {finding.got}"]
    whole = "\n".join(line for line in lines if line)
    return whole if len(whole) <= _CUT else f"{whole[:_CUT]}..."
