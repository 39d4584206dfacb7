"""Runs a package: main, parity and tests, in a sandbox; each gives marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import pairs, paritycheck
from steplib.grading import verdicts
from steplib.grading.bench import Bench
from steplib.grading.verdicts import Mark
from steplib.oracle import References
from steplib.outcome import Outcome
from steplib.paths import sha256
from steplib.prompts import prompt_set

if TYPE_CHECKING:
    from steplib.book import Chapter
    from steplib.pairs import TestFile, TestRun
    from steplib.prompts import PromptSet

MAIN_LIMIT, GENERATE_LIMIT, PROBE_LIMIT = 60.0, 120.0, 20.0
"""Seconds for main, for one call of generate, and for one probe."""


@dataclass
class Package:
    """The files of one package on a bench, and what was tried in spite of the rules."""

    bench: Bench
    chapter: Chapter
    files: dict[str, bytes]
    violations: list[str] = field(default_factory=list)

    def main(self, model: Path, max_tokens: int, wanted: dict[str, Any]) -> Mark:
        """Main's mark. wanted: what the book's own main reports."""
        outcome = self.run_main(model, max_tokens)
        hashes = {path: sha256(data) for path, data in self.files.items()}
        is_whole = not self.chapter.manifest.main.second_process
        self._note(outcome.end["violations"])
        return verdicts.of_main(outcome, hashes, model.name, wanted, is_whole)

    def run_main(self, model: Path, max_tokens: int) -> Outcome:
        """Main's run; where main needs a process that sees transformers, generate alone."""
        stage = self.bench.stage(f"main-{model.name}-{max_tokens}", [self.chapter.main])
        if self.chapter.manifest.main.second_process:
            prompts = prompt_set(model).lists()[2:4]
            call = {"model_path": str(model), "prompts": prompts, "max_tokens": max_tokens,
                    "config": {}}  # fmt: skip
            return self.bench.cell.run(stage.job("generate", {"calls": [call]}), MAIN_LIMIT)
        argv = ["--model", str(model), "--max-tokens", str(max_tokens)]
        return self.bench.cell.run(
            stage.job("main", {"script": "main.py", "argv": argv}), MAIN_LIMIT
        )

    def parity(
        self, models: Sequence[tuple[Path, PromptSet]], references: References
    ) -> Iterator[tuple[str, Mark]]:
        """A mark for each model."""
        stage = self.bench.stage("parity", [self.chapter.main])
        for folder, prompts in models:
            result = paritycheck.check_model(
                stage, self.bench.cell, folder, prompts, references,
                self.chapter.manifest.parity, GENERATE_LIMIT,
            )  # fmt: skip
            yield folder.name, verdicts.of_result(result)

    def tests(self, tests: TestFile, only: frozenset[str] | None = None) -> TestRun:
        """The pairs of one file; their judges run here."""
        stage = self.bench.stage(f"{tests.path.stem}-{tests.pairs[0].seed}", [], tests.path)
        ran = pairs.run(tests, stage, self.bench.cell, limit=PROBE_LIMIT, only=only)
        self._note(ran.violations)
        return ran

    def answer(self, checks: TestFile, answer: bytes, apart: str) -> TestRun:
        """An exercise's pairs, beside an answer, or with it in a process of its own."""
        stage = self.bench.stage("exercise", [], checks.path)
        (stage.scratch / "answer.py").write_bytes(answer)
        return pairs.run(checks, stage, self.bench.cell, limit=PROBE_LIMIT, apart=apart)

    def _note(self, sentences: Sequence[str]) -> None:
        self.violations += [s for s in map(str, sentences) if s not in self.violations]
