"""Grades a class: what is asked is set up once, then one submission after the other."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import cache
from steplib.errors import UserError
from steplib.grading import fingerprint, intake, packages
from steplib.grading.calibration import calibrated
from steplib.grading.intake import HandedIn
from steplib.grading.pool import Answer, Pool, Task
from steplib.grading.references import ClassReferences
from steplib.grading.schema import ClassReport, Settings, SubmissionReport
from steplib.grading.submission import PER_CHAPTER, PER_EXERCISE, Grading

if TYPE_CHECKING:
    from steplib.grading.exam import Exam
    from steplib.prompts import PromptSet

_SLACK, _SETTING_UP = 600.0, 3600.0
Say = Callable[[str], None]


@dataclass
class _Entry:
    """One submission on its way. used: the chapters that its packages are of.

    refused: why it can't be taken at all.
    """

    path: Path
    handed_in: HandedIn | None
    used: dict[int, list[int]] = field(default_factory=dict)
    refused: str = ""

    @property
    def name(self) -> str:
        return intake.name_of(self.path)

    @property
    def content(self) -> str:
        """The digest of what was read; empty for one that can't be taken."""
        return self.handed_in.sha256 if self.handed_in else ""


@dataclass
class Course:
    """say: is told each line of progress."""

    exam: Exam
    jobs: int
    say: Say
    is_fresh: bool = False
    broken: list[str] = field(default_factory=list)

    def graded(self, folder: Path) -> ClassReport:
        """Everything. `broken` then names those whom the tool itself could not grade."""
        entries = [self._entry(path) for path in intake.submissions(folder)]
        kept = cache.Results(self.exam.root, self.is_fresh)
        keys = {entry.name: self._key(entry) for entry in entries}
        by_name = {entry.name: entry for entry in entries}
        done = {name: found for name, key in keys.items() if (found := kept.get(key))}
        waiting = [entry for entry in entries if entry.name not in done]
        if done:
            self.say(f"{len(done)} of {len(entries)} are as they were graded before")
        with Pool(self.jobs) as pool:
            self._prepare(pool, waiting)
            tasks = [self._task(entry) for entry in waiting]

            def put(task: Task, answer: Answer) -> None:
                name = task["name"]
                done[name] = self._taken(name, answer)
                entry = by_name[name]
                if answer.get("done", {}).get("sha256") == entry.content:  # not changed since
                    kept.put(keys[name], done[name])
                told = _told_of(done[name], entry.refused)
                self.say(f"{len(done):3} of {len(entries)}  {name}  {told}")

            pool.run(tasks, self._limit, put)
        reports = [SubmissionReport.model_validate(done[entry.name]) for entry in entries]
        exam = self.exam
        settings = Settings(chapters=list(exam.chapters), exercises=list(exam.exercises),
                            seed=exam.seed)  # fmt: skip
        made_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return ClassReport(submissions=reports, settings=settings, made_at=made_at)

    @property
    def _limit(self) -> float:
        exam = self.exam
        return (
            _SLACK + 2 * PER_CHAPTER * len(exam.chapters) + 2 * PER_EXERCISE * len(exam.exercises)
        )

    def _entry(self, path: Path) -> _Entry:
        try:
            handed_in = intake.take(path)
        except intake.Refused as refused:
            return _Entry(path, None, refused=str(refused))
        found = packages.packages(self.exam.book, handed_in, list(self.exam.chapters))
        used: dict[int, list[int]] = {}
        for number, package in found.items():
            used.setdefault(package.chapter, []).append(number)
        return _Entry(path, handed_in, used)

    def _key(self, entry: _Entry) -> str:
        exam = self.exam
        numbers = sorted({*exam.chapters, *entry.used})
        parts: list[Any] = ["grade", entry.name, entry.content]
        parts += [exam.chapters, exam.exercises, exam.seed]
        parts += [fingerprint.of_chapter(exam, number) for number in numbers]
        parts += [fingerprint.of_exercise(exam, name) for name in exam.exercises]
        notes = entry.handed_in.notes if entry.handed_in else str(entry.path.lstat().st_size)
        return cache.key(*parts, notes)

    def _prepare(self, pool: Pool, waiting: list[_Entry]) -> None:
        """Calibrate in the workers, while transformers answers for all in a process of its own."""
        if not waiting:
            return
        self.say(f"{len(waiting)} to grade; first, what the book's own code does")
        exam, seeds = self.exam, sorted(self.exam.seed_of(entry.name) for entry in waiting)
        numbers = sorted({*exam.chapters, *(n for entry in waiting for n in entry.used)})
        with ThreadPoolExecutor(max_workers=1) as aside:
            wanted = list(self._wanted(waiting))
            answers = aside.submit(ClassReferences(exam.root).prepare, wanted)
            task = {"kind": "calibrate", "exam": self._told()}
            tasks = [{**task, "chapter": n, "seeds": []} for n in numbers]
            pool.run(tasks, _SETTING_UP, _demand_done)
            parts = [seeds[i :: self.jobs] for i in range(min(self.jobs, len(seeds)))]
            tasks = [{**task, "chapter": n, "seeds": part} for n in numbers for part in parts]
            pool.run(tasks, _SETTING_UP, _demand_done)
            self._warn(numbers)
            if wanted:
                self.say("waiting for transformers' answers")
            answers.result()

    def _warn(self, numbers: list[int]) -> None:
        for number in numbers:
            if failing := calibrated(self.exam, number, []).failing:
                what = f"warning: chapter {number:02d}: the book's own code does not pass"
                self.say(f"{what} {', '.join(failing)} here; nobody gets points for that")

    def _wanted(self, waiting: list[_Entry]) -> Iterator[tuple[Path, PromptSet]]:
        exam = self.exam
        for entry in waiting:
            seed = exam.seed_of(entry.name)
            for newest, numbers in entry.used.items():
                folders = {folder: None for n in numbers for folder in exam.models(n)}
                for folder in folders:
                    yield folder, exam.prompts(newest, folder, seed)

    def _told(self) -> dict[str, Any]:
        exam = self.exam
        return {"root": str(exam.root), "chapters": exam.chapters, "exercises": exam.exercises,
                "seed": exam.seed}  # fmt: skip

    def _task(self, entry: _Entry) -> Task:
        return {"kind": "grade", "exam": self._told(), "path": os.path.abspath(entry.path),
                "name": entry.name, "used": sorted(entry.used)}  # fmt: skip

    def _taken(self, name: str, answer: Answer) -> dict[str, Any]:
        """The report; of one that the tool could not grade, a report of errors."""
        if "done" in answer:
            report: dict[str, Any] = answer["done"]
            return report
        self.broken.append(name)
        why = answer.get("refused") or answer["failed"]
        calibrations = {
            number: calibrated(self.exam, number, [self.exam.seed_of(name)])
            for number in self.exam.chapters
        }
        grading = Grading(self.exam, calibrations, name, 0)
        return grading.unfinished(f"the grading of it stopped: {why}").model_dump(mode="json")


def _demand_done(task: Task, answer: Answer) -> None:
    if "done" not in answer:
        why = answer.get("refused") or answer["failed"]
        raise UserError(f"chapter {task['chapter']:02d} can't be graded with: {why}")


def _told_of(report: dict[str, Any], refused: str) -> str:
    points = f"{report['points']:g} of {report['max_points']:g}"
    return f"{points}: {refused}" if refused else f"{points}, {report['seconds']:.0f} s"
