"""What is asked of a class, and what of it differs from submission to submission."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from steplib.book import Book, Chapter
from steplib.context import test_files
from steplib.exercises.exercise import Exercise, find
from steplib.grading import points
from steplib.grading.schema import Item
from steplib.lineup import Lineup
from steplib.pairs import Pair, TestFile, read
from steplib.prompts import PromptSet, prompt_set

MAIN_LENGTHS = (18, 26)
"""Tokens that main may be asked for; a submission's seed chooses, as it does the model."""


@dataclass(frozen=True)
class SeededPair(Pair):
    """A pair with a seed of its submission, in place of the one that everybody can read."""

    salt: int = 0

    @property
    def seed(self) -> int:
        return zlib.crc32(f"{self.salt}:{self.name}".encode())


@dataclass(frozen=True)
class Exam:
    """chapters and exercises in order. seed: the base of all seeds."""

    root: Path
    chapters: tuple[int, ...]
    exercises: tuple[str, ...]
    seed: int

    @cached_property
    def book(self) -> Book:
        return Book.load(self.root)

    @cached_property
    def lineup(self) -> Lineup:
        return Lineup.of(self.book)

    def seed_of(self, name: str) -> int:
        """The seed of a submission."""
        return zlib.crc32(f"{self.seed}:{name}".encode())

    def tests(self, number: int) -> list[TestFile]:
        return [read(path) for path in test_files(self.book, self.book.chapter(number))]

    def models(self, number: int) -> list[Path]:
        """The tiny models that a chapter is compared on."""
        names = self.book.chapter(number).manifest.parity.models
        return [self.lineup.whole(name) for name in names]

    def prompts(self, number: int, model: Path, seed: int) -> PromptSet:
        """A submission's own prompts."""
        kind = self.book.chapter(number).manifest.parity.prompts
        return prompt_set(model, seed, kind)

    def main_run(self, number: int, seed: int) -> tuple[Path, int]:
        """The model and the count of tokens that a submission's main gets."""
        models = self.models(number)
        return models[seed % len(models)], MAIN_LENGTHS[seed // 7 % len(MAIN_LENGTHS)]

    def exercise(self, wanted: str) -> Exercise:
        return find(self.book, wanted)


def salted(tests: TestFile, salt: int) -> TestFile:
    """The file's pairs with a submission's seed."""
    pairs = (SeededPair(pair.name, pair.line, pair.bugs, salt) for pair in tests.pairs)
    return replace(tests, pairs=tuple(pairs))


def sheet(exam: Exam, counted: dict[int, list[str]]) -> list[Item]:
    """Everything that earns points, unanswered; the same for every submission.

    counted: for each chapter the names of the tests that count.
    """
    items = [item for n in exam.chapters for item in _of_chapter(exam, n, counted[n])]
    for name in exam.exercises:
        exercise = exam.exercise(name)
        items.append(
            Item(
                id=f"exercise.{exercise.id}", chapter=exercise.chapter.number,
                title=f"exercise {exercise.id}: {exercise.recipe.title}",
                task=exercise.recipe.title, max_points=points.EXERCISE,
            )
        )  # fmt: skip
    return items


def _of_chapter(exam: Exam, number: int, counted: list[str]) -> Iterator[Item]:
    chapter = exam.book.chapter(number)
    yield Item(id=f"{number:02d}.main", chapter=number, title="main and its counters",
               task="main and parity", max_points=points.MAIN)  # fmt: skip
    models = chapter.manifest.parity.models
    for model, share in zip(models, points.shares(points.PARITY, len(models)), strict=True):
        yield Item(id=f"{number:02d}.parity.{model}", chapter=number, task="main and parity",
                   title=f"the same tokens as transformers on {model}",
                   max_points=share)  # fmt: skip
    worth = dict(zip(counted, points.shares(points.TESTS, len(counted)), strict=True))
    for tests in exam.tests(number):
        for pair in tests.pairs:
            if pair.name in worth:
                yield Item(id=f"{number:02d}.tests.{pair.name}", chapter=number,
                           title=pair.name.replace("_", " "), task=topic(tests.path, chapter),
                           max_points=worth[pair.name])  # fmt: skip


def topic(path: Path, chapter: Chapter) -> str:
    """What a test file is about, in words."""
    words = path.stem.removeprefix(f"test_ch{chapter.number:02d}_")
    return words.replace("_", " ")
