"""What the book's own code does under grading: which tests count, and what main reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steplib import cache, starter
from steplib.errors import UserError
from steplib.grading import fingerprint
from steplib.grading.bench import bench
from steplib.grading.cell import Budget
from steplib.grading.exam import MAIN_LENGTHS, Exam, salted
from steplib.grading.run import Package

_BUDGET = 3600.0


@dataclass(frozen=True)
class Calibration:
    """One chapter's. counted: the tests that the book passes and the untouched starter does not.

    failing: those that the book itself does not pass on this machine, or skips. mains: what its
    main reports, by model and count of tokens. unfair: for a submission's seed the tests that the
    book itself fails with it; they keep the seed that everybody has.
    """

    counted: list[str]
    failing: list[str]
    mains: dict[str, dict[str, Any]]
    unfair: dict[int, list[str]]


def calibrated(exam: Exam, number: int, seeds: list[int], slot: int = 0) -> Calibration:
    """Run what isn't kept yet."""
    kept = cache.Results(exam.root)
    base = ["calibration", number, *fingerprint.of_chapter(exam, number)]
    told = kept.get(cache.key(*base))
    missing = [s for s in seeds if kept.get(cache.key(*base, s)) is None]
    if told is None or missing:
        with _reference(exam, number, slot) as package:
            if told is None:
                told = _base(exam, number, package, slot)
                kept.put(cache.key(*base), told)
            for seed in missing:
                kept.put(cache.key(*base, seed), {"unfair": _unfair(exam, number, package, seed)})
    found = {seed: kept.get(cache.key(*base, seed)) or {} for seed in seeds}
    unfair = {seed: list(one.get("unfair", [])) for seed, one in found.items()}
    return Calibration(told["counted"], told["failing"], told["mains"], unfair)


def _reference(exam: Exam, number: int, slot: int) -> _Bench:
    tree = exam.book.reference(number).files
    return _Bench(exam, number, {path: file.data for path, file in tree.items()}, slot)


class _Bench:
    """A package of the book's on a bench."""

    def __init__(self, exam: Exam, number: int, files: dict[str, bytes], slot: int) -> None:
        self.chapter, self.files = exam.book.chapter(number), files
        models = exam.lineup.folder
        self.bench = bench(exam.root, files, models, Budget(_BUDGET), slot)

    def __enter__(self) -> Package:
        return Package(self.bench.__enter__(), self.chapter, self.files)

    def __exit__(self, *how: Any) -> None:
        self.bench.__exit__(*how)


def _base(exam: Exam, number: int, package: Package, slot: int) -> dict[str, Any]:
    passed = _passed(exam, number, package)
    files = starter.contents(exam.book, number)
    with _Bench(exam, number, files, slot) as untouched:
        free = _passed(exam, number, untouched)
    mains = {
        f"{model.name} {length}": _main(package, model, length)
        for model in exam.models(number)
        for length in MAIN_LENGTHS
    }
    every = [pair.name for tests in exam.tests(number) for pair in tests.pairs]
    failing = [name for name in every if name not in passed]
    counted = [name for name in passed if name not in free]
    return {"counted": counted, "failing": failing, "mains": mains}


def _passed(exam: Exam, number: int, package: Package) -> list[str]:
    runs = [package.tests(tests) for tests in exam.tests(number) if tests.pairs]
    return [one.name for ran in runs for one in ran.results if one.verdict == "passed"]


def _main(package: Package, model: Path, length: int) -> dict[str, Any]:
    outcome = package.run_main(model, length)
    answers = outcome.of_kind("generation")
    if outcome.ending != "done" or not answers:
        errors = [str(error["message"]) for error in outcome.of_kind("error")]
        why = outcome.detail or next(iter(errors), "it reported no Generation")
        raise UserError(
            f"the book's own main of {package.chapter.name} fails in the sandbox: {why}"
        )
    return answers[-1]


def _unfair(exam: Exam, number: int, package: Package, seed: int) -> list[str]:
    found = []
    for tests in exam.tests(number):
        ran = package.tests(salted(tests, seed)) if tests.pairs else None
        found += [one.name for one in ran.results if one.verdict != "passed"] if ran else []
    return found
