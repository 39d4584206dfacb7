"""What a mutation run found, as lines for people and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steplib.mutation.mutant import Mutant
from steplib.mutation.trial import Verdict

LEAST = 0.9
"""The share of mutants that a chapter's check must catch, equivalent ones left out."""


@dataclass
class ChapterRun:
    """The mutants of one chapter that were chosen, out of how many. reasons: of equivalents."""

    number: int
    name: str
    total: int
    mutants: list[Mutant]
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def word(self, mutant: Mutant) -> str:
        return "equivalent" if mutant.id in self.reasons else self.verdicts[mutant.id].word

    @property
    def counts(self) -> Counter[str]:
        return Counter(map(self.word, self.mutants))

    @property
    def survivors(self) -> list[Mutant]:
        return [mutant for mutant in self.mutants if self.word(mutant) == "survived"]

    @property
    def share(self) -> float:
        """Caught or timed out, among all but the equivalent ones."""
        counted = len(self.mutants) - self.counts["equivalent"]
        return 1.0 if not counted else 1 - len(self.survivors) / counted

    @property
    def is_enough(self) -> bool:
        return self.share >= LEAST


def lines(run: ChapterRun) -> Iterator[str]:
    """The counts, then each survivor with its line before and after."""
    counts = run.counts
    yield f"{run.number:02d} {run.name}: {len(run.mutants)} of {run.total} mutants tried"
    words = ("caught", "timed out", "survived", "equivalent")
    share = f"{run.share:.1%} noticed" + ("" if run.is_enough else f", less than {LEAST:.0%}")
    yield "   " + ", ".join(f"{counts[word]} {word}" for word in words) + f": {share}"
    for mutant in run.survivors:
        yield ""
        yield f"   {mutant.path}:{mutant.lines[0]} {mutant.symbol}: {mutant.kind}"
        yield f"   - {mutant.before}"
        yield f"   + {mutant.after}"


def as_data(runs: list[ChapterRun], seed: int) -> dict[str, Any]:
    """Everything, for --json."""
    return {"seed": seed, "chapters": [_chapter(run) for run in runs]}


def _chapter(run: ChapterRun) -> dict[str, Any]:
    head = {"chapter": run.number, "total": run.total, "tried": len(run.mutants)}
    words = dict(run.counts)
    rows = [_mutant(run, mutant) for mutant in run.mutants]
    return {**head, "counts": words, "share": round(run.share, 4), "mutants": rows}


def _mutant(run: ChapterRun, mutant: Mutant) -> dict[str, Any]:
    verdict = run.verdicts.get(mutant.id)
    return {
        "id": mutant.id, "file": mutant.path, "line": mutant.lines[0], "symbol": mutant.symbol,
        "kind": mutant.kind, "before": mutant.before, "after": mutant.after,
        "occurrence": mutant.occurrence, "verdict": run.word(mutant),
        "by": verdict.by if verdict else "", "reason": run.reasons.get(mutant.id, ""),
        "seconds": round(verdict.seconds, 2) if verdict else 0.0,
    }  # fmt: skip
