"""Runs a chapter's generate in isolation and compares it with the reference, config by config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib.facts import Finding, Result, failed
from steplib.mains import violations
from steplib.oracle import References
from steplib.outcome import Outcome
from steplib.pairs import told
from steplib.parity import Answer, Call, Comparison, compare, idle_counters
from steplib.process import Runner
from steplib.prompts import PromptSet
from steplib.stage import Stage

if TYPE_CHECKING:
    from steplib.manifest import Parity, ParityRun

CHECK = "parity"
LIMIT = 600.0
"""Seconds that one call of generate may take."""


@dataclass
class Engine:
    """The chapter's generate on one stage, with one model and one config."""

    stage: Stage
    runner: Runner
    model: Path
    config: dict[str, Any]
    limit: float = LIMIT
    refused: list[Finding] | None = None

    def generate(self, calls: list[Call]) -> list[Answer]:
        """One answer a call; what went wrong is a sentence in the answer."""
        body = {
            "calls": [
                {"model_path": str(self.model), "prompts": call.prompts,
                 "max_tokens": call.max_tokens, "config": self.config}
                for call in calls
            ]
        }  # fmt: skip
        outcome = self.runner.run(self.stage.job("generate", body), self.limit)
        self.refused = self.refused or violations(outcome)
        return [_answer(outcome, index) for index in range(len(calls))]


def _answer(outcome: Outcome, index: int) -> Answer:
    if outcome.ending == "forged":
        return Answer(error=f"generate: {outcome.detail}", verdict="forged")
    is_whole = outcome.ending == "done"  # a child that left by itself has shown nothing
    for record in outcome.records:
        if is_whole and record["kind"] == "generation" and record.get("index") == index:
            return Answer(record["token_ids"], record["top2"], record["counters"])
        if record["kind"] == "error" and record.get("index", index) == index:
            return Answer(error=f"generate stopped with {told(record)}", verdict="crashed")
    verdict = "no record" if outcome.ending == "done" else outcome.ending
    return Answer(error=f"generate: {outcome.detail or 'no record came'}", verdict=verdict)


def model_runs(parity: Parity, model: str) -> list[ParityRun]:
    """The runs that the manifest asks for on this model; the first one when it asks for none."""
    chosen = [run for run in parity.runs if not run.models or model in run.models]
    return chosen or list(parity.runs[:1])


def check_model(
    stage: Stage,
    runner: Runner,
    folder: Path,
    prompts: PromptSet,
    references: References,
    parity: Parity,
    limit: float = LIMIT,
) -> Result:
    """Every run of the manifest on one model."""
    reference = references.reference(folder, prompts)
    done: list[Comparison] = []
    for run in model_runs(parity, folder.name):
        engine = Engine(stage, runner, folder, run.config, limit)
        found = compare(reference, prompts.prompts, prompts.max_tokens, engine.generate)
        done.append(found)
        trouble = engine.refused or _findings(found, run)
        if trouble:
            verdict = found.difference.verdict if found.difference else "failed"
            return _failure(folder.name, run, trouble, verdict)
    if idle := idle_counters(parity.counters, [found.counters for found in done]):
        return _failure(folder.name, None, [Finding(sentence) for sentence in idle])
    return _success(folder.name, done)


def _findings(found: Comparison, run: ParityRun) -> list[Finding]:
    if (wrong := found.difference) is not None:
        return [Finding(wrong.message, expected=wrong.expected or None, got=wrong.got or None)]
    return [Finding(sentence) for sentence in idle_counters(run.counters, [found.counters])]


def _failure(
    model: str, run: ParityRun | None, findings: list[Finding], verdict: str = "failed"
) -> Result:
    config = ", ".join(f"{k}={v!r}" for k, v in run.config.items()) if run else ""
    name = f"{model} ({config})" if config else model
    named = [Finding(f"{name}: {f.message}", f.where, f.expected, f.got, f.mend) for f in findings]
    return failed(CHECK, *named, verdict=verdict, data={"model": model})


def _success(model: str, done: list[Comparison]) -> Result:
    ties = sum(len(found.near_ties) for found in done)
    data = {
        "model": model,
        "runs": len(done),
        "tokens": sum(found.tokens for found in done),
        "near_ties": ties,
        "largest_difference": max(found.largest for found in done),
        "allowed_difference": done[0].allowed,
        "counters": [found.counters for found in done],
    }
    summary = f"{model} {data['tokens']} tokens, {ties} near ties"
    return Result(CHECK, summary=summary, data=data)
