"""Puts one mutant after the other into a chapter's tree and runs its check to the first failure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from steplib import mains, paritycheck
from steplib.errors import UserError
from steplib.mutation.clean import Probe, failure
from steplib.paths import sha256, write_atomically
from steplib.prompts import prompt_set
from steplib.warm import Warm

if TYPE_CHECKING:
    from pathlib import Path

    from steplib.book import Chapter
    from steplib.mutation.mutant import Mutant
    from steplib.oracle import References
    from steplib.outcome import Outcome, Record
    from steplib.stage import Stage

SLACK, GRACE = 5.0, 2.0  # a run may take SLACK times what it takes without a mutant, and GRACE
QUICK = 1.0  # seconds; slower probes are run after all quick ones
TOKENS = 16  # per prompt in parity: enough to show a fault
Word = Literal["caught", "timed out", "survived"]


@dataclass(frozen=True)
class Verdict:
    """by: the pair, "main" or "parity" that noticed the mutant."""

    word: Word
    by: str = ""
    seconds: float = 0.0


class Stoppable(Warm):
    """A warm process whose job can be ended as soon as its verdict is known."""

    def stop_job(self) -> None:
        self._stop_job()


@dataclass
class Watch:
    """Judges each answer as it comes, and ends the job at the first that is wrong."""

    probes: dict[str, Probe]
    runner: Stoppable
    failed: str | None = None
    good: set[str] = field(default_factory=set)

    def __call__(self, record: Record) -> None:
        name = record.get("name")
        if self.failed is not None or record["kind"] == "start" or name not in self.probes:
            return
        probe = self.probes[name]
        if failure(probe.pair, record, probe.judges) is None:
            self.good.add(name)
        else:
            self.failed = name
            self.runner.stop_job()

    def verdict(self, outcome: Outcome) -> Verdict | None:
        """What the job has shown; None when every pair passed."""
        late = outcome.ending == "timed out" and self.failed is None
        left = [name for name in self.probes if name not in self.good]
        if not left and outcome.ending == "done" and not outcome.end["violations"]:
            return None
        name = self.failed or next(iter(left), next(iter(self.probes)))
        return Verdict("timed out" if late else "caught", self.probes[name].name)


@dataclass
class Trial:
    """One stage on which mutants are tried, one at a time."""

    chapter: Chapter
    stage: Stage
    runner: Stoppable
    model: Path
    references: References
    probes: list[Probe]
    clean_seconds: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Time main and parity on the clean tree, where both must pass."""
        for name, run in (("main", self._main), ("parity", self._parity)):
            begun = time.monotonic()
            if (verdict := run()) is not None:
                number = f"{self.chapter.number:02d}"
                raise UserError(
                    f"{name} of chapter {number} doesn't pass on {self.model.name} without a "
                    f"mutant ({verdict.word}); see: python tools/steps.py check {number}"
                )
            self.clean_seconds[name] = time.monotonic() - begun

    def verdict(self, mutant: Mutant, first: str = "") -> Verdict:
        """Whether the check notices the mutant. first: what noticed it in an earlier run."""
        file, begun = self.stage.tree / mutant.path, time.monotonic()
        write_atomically(file, mutant.text)
        try:
            found = next(filter(None, self._verdicts(mutant, first)), Verdict("survived"))
        finally:
            write_atomically(file, mutant.source.text)
        return replace(found, seconds=time.monotonic() - begun)

    def _verdicts(self, mutant: Mutant, first: str) -> Iterator[Verdict | None]:
        """From what is most likely to notice it, and cheap, to what is least."""
        near = [probe for probe in self.probes if probe.reaches(mutant)]
        known = [probe for probe in self.probes if probe.name == first]
        far = [probe for probe in self.probes if probe not in near]
        yield from self._pairs(known)
        yield from self._pairs(probe for probe in near if probe not in known)
        yield self._main()
        yield self._parity()
        # Coverage sees neither other processes, nor who uses what was made once for all.
        yield from self._pairs(probe for probe in far if probe not in known)

    def _pairs(self, probes: Iterable[Probe]) -> Iterator[Verdict | None]:
        """One job for the quick probes of each file, and one for each slow probe."""
        jobs: dict[tuple[float, str], list[Probe]] = {}
        for probe in probes:
            slow = probe.seconds if probe.seconds > QUICK else 0.0
            jobs.setdefault((slow, probe.file.stem), []).append(probe)
        for slow in sorted({slow for slow, _ in jobs}):
            for (speed, module), chosen in jobs.items():
                if speed == slow:
                    yield self._probed(module, chosen)

    def _probed(self, module: str, probes: list[Probe]) -> Verdict | None:
        body = {"module": module, "probes": [[p.pair.name, p.pair.seed] for p in probes]}
        watch = Watch({probe.pair.name: probe for probe in probes}, self.runner)
        limit = _limit(max(probe.seconds for probe in probes))
        return watch.verdict(self.runner.run(self.stage.job("probes", body), limit, watch))

    def _main(self) -> Verdict | None:
        body = {"script": "main.py", "argv": ["--model", str(self.model)]}
        second = self.chapter.manifest.main.second_process
        job = self.stage.job("main", body, second_process=second)
        outcome = self.runner.run(job, self._limit_of("main", mains.LIMIT))
        result = mains.judged(outcome, _hashes(self.stage.tree), self.model.name)
        return None if result.is_passed else _verdict(outcome.ending, "main")

    def _parity(self) -> Verdict | None:
        parity = self.chapter.manifest.parity
        prompts = replace(prompt_set(self.model, kind=parity.prompts), max_tokens=TOKENS)
        limit = self._limit_of("parity", paritycheck.LIMIT)
        result = paritycheck.check_model(
            self.stage, self.runner, self.model, prompts, self.references, parity, limit
        )
        return None if result.is_passed else _verdict(result.verdict, "parity")

    def _limit_of(self, name: str, most: float) -> float:
        clean = self.clean_seconds.get(name)
        return most if clean is None else _limit(clean)


def _limit(clean: float) -> float:
    return SLACK * clean + GRACE


def _verdict(ending: str, by: str) -> Verdict:
    return Verdict("timed out" if ending == "timed out" else "caught", by)


def _hashes(tree: Path) -> dict[str, str]:
    return {p.relative_to(tree).as_posix(): sha256(p.read_bytes()) for p in tree.rglob("*.py")}
