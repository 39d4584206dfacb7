"""Grades one submission from beginning to end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from steplib.cache import installed
from steplib.grading import intake, isolation, packages
from steplib.grading.bench import bench
from steplib.grading.calibration import Calibration
from steplib.grading.cell import Budget
from steplib.grading.exam import Exam, salted, sheet
from steplib.grading.intake import HandedIn
from steplib.grading.references import ClassReferences
from steplib.grading.run import Package
from steplib.grading.schema import Item, SubmissionReport
from steplib.grading.verdicts import Mark, of_test
from steplib.oracle import References
from steplib.pairs import Pair, TestFile

PER_CHAPTER, PER_EXERCISE = 240.0, 60.0
"""Seconds that a submission may use; what comes after that has timed out."""

ALONE = (
    "main's tokens are right, but its prompts are the same for everybody: it counts only when "
    "parity, whose prompts are drawn, passes on at least one model, and it passed on none"
)
"""What main says then."""

_MOST_NOTES = 30


@dataclass
class Grading:
    """One submission under way."""

    exam: Exam
    calibrations: dict[int, Calibration]
    name: str
    slot: int
    references: References | None = None
    items: dict[str, Item] = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        counted = {number: it.counted for number, it in self.calibrations.items()}
        counted = {number: counted[number] for number in self.exam.chapters}
        self.items = {item.id: item for item in sheet(self.exam, counted)}
        self.seed = self.exam.seed_of(self.name)
        exam = self.exam
        whole = PER_CHAPTER * len(exam.chapters) + PER_EXERCISE * len(exam.exercises)
        self.budget = Budget(whole)
        self.references = self.references or ClassReferences(exam.root)

    def graded(self, handed_in: HandedIn) -> SubmissionReport:
        """Run everything and write every verdict."""
        begun = time.monotonic()
        self.notes += handed_in.notes
        found = packages.packages(self.exam.book, handed_in, list(self.exam.chapters))
        for package in {id(it): it for it in found.values()}.values():
            numbers = [number for number, it in found.items() if it is package]
            self.notes += packages.notes(self.exam.book, package, numbers)
            written = [n for n in numbers if not packages.is_only_laid(self.exam.book, package, n)]
            for number in set(numbers) - set(written):
                laid = f"its files are as `start {package.chapter:02d}` lays them"
                self._mark(f"{number:02d}.", Mark("missing", f"nothing of it was written: {laid}"))
            if written:
                self._run_package(package, written)
        for number in self.exam.chapters:
            if number not in found:
                what = f"no package of chapter {number:02d} was handed in"
                self._mark(f"{number:02d}.", Mark("missing", what))
        for name in self.exam.exercises:
            self._run_exercise(name, handed_in)
        report = self.report(handed_in.sha256)
        report.seconds = round(time.monotonic() - begun, 2)
        return report

    def refused(self, sentence: str) -> SubmissionReport:
        """Nothing could be taken: every item has the sentence."""
        self.notes.append(sentence)
        self._mark("", Mark("missing", sentence))
        return self.report("")

    def unfinished(self, sentence: str) -> SubmissionReport:
        """The tool itself stopped: nothing is known, and every verdict is an error."""
        self.notes.append(sentence)
        self._mark("", Mark("error", sentence))
        return self.report("")

    def report(self, digest: str) -> SubmissionReport:
        items = list(self.items.values())
        kind = isolation.strictest()
        warning = [isolation.WARNINGS[kind]] if kind in isolation.WARNINGS else []
        over = len(self.notes) - _MOST_NOTES
        more = [f"{over} more notes were left out."] if over > 0 else []
        notes = [*warning, *self.notes[:_MOST_NOTES], *more]
        return SubmissionReport(
            name=self.name, sha256=digest, seed=self.seed, chapters=list(self.exam.chapters),
            exercises=list(self.exam.exercises), items=items, notes=notes,
            versions=versions(self.exam.root), isolation=kind,
            points=sum(item.points for item in items),
            max_points=sum(item.max_points for item in items),
        )  # fmt: skip

    def _mark(self, prefix: str, mark: Mark) -> None:
        for key, item in self.items.items():
            if key.startswith(prefix):
                mark.on(item)

    def _run_package(self, handed: packages.Package, numbers: list[int]) -> None:
        """Tests of each chapter on the one package; main and parity by its newest chapter."""
        exam, chapter = self.exam, self.exam.book.chapter(handed.chapter)
        models, calibration = exam.lineup.folder, self.calibrations[handed.chapter]
        with bench(exam.root, handed.files, models, self.budget, self.slot) as place:
            package = Package(place, chapter, handed.files)
            for number in numbers:
                for tests in exam.tests(number):
                    self._run_tests(package, number, tests)
            model, length = exam.main_run(chapter.number, self.seed)
            mark = package.main(model, length, calibration.mains[f"{model.name} {length}"])
            for number in numbers:
                mark.on(self.items[f"{number:02d}.main"])
            self._run_parity(package, numbers)
            self._hold_main_to_parity(numbers)
        self.notes += [f"it tried: {sentence}" for sentence in package.violations]

    def _run_parity(self, package: Package, numbers: list[int]) -> None:
        exam, newest, references = self.exam, package.chapter.number, self.references
        assert references is not None
        folders = {folder: None for number in numbers for folder in exam.models(number)}
        wanted = [(folder, exam.prompts(newest, folder, self.seed)) for folder in folders]
        for name, mark in package.parity(wanted, references):
            for number in numbers:
                if (item := self.items.get(f"{number:02d}.parity.{name}")) is not None:
                    mark.on(item)

    def _hold_main_to_parity(self, numbers: list[int]) -> None:
        """Everybody has main's prompts: it counts beside right tokens for drawn ones."""
        for number in numbers:
            main, parity = self.items[f"{number:02d}.main"], f"{number:02d}.parity."
            of_drawn = [item.verdict for key, item in self.items.items() if key.startswith(parity)]
            if main.verdict == "passed" and "passed" not in of_drawn:
                Mark("failed", ALONE).on(main)

    def _run_tests(self, package: Package, number: int, tests: TestFile) -> None:
        """The file's pairs with the submission's seed, but for those that it would be unfair to."""
        calibration = self.calibrations[number]
        unfair = set(calibration.unfair[self.seed])
        own = salted(tests, self.seed)
        theirs: list[Pair] = [p for p in own.pairs if p.name not in unfair]
        plain = [pair for pair in tests.pairs if pair.name in unfair]
        for part in (replace(own, pairs=tuple(theirs)), replace(tests, pairs=tuple(plain))):
            counted = frozenset(calibration.counted) & {pair.name for pair in part.pairs}
            if counted:
                for result in package.tests(part, counted).results:
                    of_test(result).on(self.items[f"{number:02d}.tests.{result.name}"])

    def _run_exercise(self, name: str, handed_in: HandedIn) -> None:
        exam, exercise = self.exam, self.exam.exercise(name)
        item = self.items[f"exercise.{exercise.id}"]
        answer = packages.answer(handed_in, exercise)
        if answer is None:
            Mark("missing", f"there is no {exercise.id}/answer.py").on(item)
            return
        if answer == exercise.solution.read_bytes():
            self.notes.append(f"{exercise.id}/answer.py is the book's own solution, byte for byte.")
        tree = exam.book.reference(exercise.chapter.number).files
        files = {path: file.data for path, file in tree.items()}
        with bench(exam.root, files, exam.lineup.folder, self.budget, self.slot) as place:
            package = Package(place, exercise.chapter, files)
            ran = package.answer(salted(exercise.pairs(), self.seed), answer, exercise.apart)
        failures = [of_test(one) for one in ran.results if one.verdict != "passed"]
        failures += [Mark("failed", sentence) for sentence in ran.violations]
        mark = next(iter(failures), Mark("passed" if ran.verdict == "passed" else "failed"))
        mark.on(item)


def grade(
    exam: Exam,
    calibrations: dict[int, Calibration],
    path: Path,
    slot: int,
    references: References | None = None,
) -> SubmissionReport:
    """The report on one submission, whatever it holds."""
    grading = Grading(exam, calibrations, intake.name_of(path), slot, references)
    try:
        handed_in = intake.take(path)
    except intake.Refused as sentence:
        return grading.refused(str(sentence))
    return grading.graded(handed_in)


def versions(root: Path) -> dict[str, str]:
    """What the grades were made with."""
    import platform

    from steplib.grading.commit import handbook_commit

    found = {"python": platform.python_version(), "handbook": handbook_commit(root)}
    return found | {name: installed(name) for name in ("torch", "transformers")}
