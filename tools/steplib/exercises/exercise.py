"""An exercise: a folder below its chapter, described by its exercise.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from steplib import pairs
from steplib.errors import UserError, did_you_mean
from steplib.records import read_toml, record

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

HINTS = 3
"""A nudge, the idea, an outline."""

_FILES = ("statement.md", "starter.py", "solution.py", "checks.py")

Kind = Literal["predict", "fault", "extend", "explain"]


@dataclass(frozen=True)
class Edit:
    """A text that stands once in the solution, and what a wrong answer has in its place."""

    old: str
    new: str


@dataclass(frozen=True)
class Wrong:
    """A typical wrong answer: the solution with some edits.

    says: part of the message that the check must give for it.
    """

    name: str
    says: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Recipe:
    """exercise.toml, field for field. upstream: the symbol that it is about, as PATH::NAME.

    models: names of the checkpoints that its probes read.
    """

    title: str
    about: str
    kind: Kind
    minutes: int
    hints: tuple[str, ...]
    wrong: tuple[Wrong, ...]
    upstream: str = ""
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """id: what a reader types: the chapter's number, with the slug where it has more than one."""

    id: str
    chapter: Chapter
    folder: Path
    recipe: Recipe = field(repr=False)

    @property
    def slug(self) -> str:
        return self.folder.name

    @property
    def statement(self) -> str:
        """The task, as Markdown."""
        return (self.folder / "statement.md").read_text(encoding="utf-8")

    @property
    def starter(self) -> Path:
        return self.folder / "starter.py"

    @property
    def solution(self) -> Path:
        return self.folder / "solution.py"

    @property
    def apart(self) -> str:
        """The module that runs in a process of its own: a prediction may not see what is measured.

        Answers of other kinds take a part in what the probes run.
        """
        return "answer" if self.recipe.kind == "predict" else ""

    def answer(self, wrong: Wrong) -> str:
        """The text of a wrong answer; UserError for an edit that has not one place."""
        text = self.solution.read_text(encoding="utf-8")
        for edit in wrong.edits:
            if (count := text.count(edit.old)) != 1:
                raise UserError(
                    f'exercise {self.id}, wrong answer "{wrong.name}": its edit of {edit.old!r} '
                    f"has {count} places in solution.py, not 1."
                )
            text = text.replace(edit.old, edit.new)
        return text

    def pairs(self) -> pairs.TestFile:
        """The pairs of checks.py."""
        return pairs.read(self.folder / "checks.py")


def every(book: Book) -> list[Exercise]:
    """All exercises, in the order of chapters and of their folders."""
    return [exercise for chapter in book.chapters for exercise in of_chapter(chapter)]


def of_chapter(chapter: Chapter) -> list[Exercise]:
    """The exercises of one chapter; UserError for one that is not whole."""
    found = sorted((chapter.folder / "exercises").glob("*/exercise.toml"))
    is_only = len(found) == 1
    return [loaded(chapter, toml.parent, is_only) for toml in found]


def find(book: Book, wanted: str) -> Exercise:
    """The exercise with this id, however it is written: 9-match, 09-match, or 07 and 7."""
    exercises = every(book)
    number, _, slug = wanted.partition("-")
    name = "-".join(filter(None, (f"{int(number):02d}" if number.isdecimal() else number, slug)))
    for exercise in exercises:
        if name in (exercise.id, f"{exercise.chapter.number:02d}-{exercise.slug}"):
            return exercise
    ids = [exercise.id for exercise in exercises]
    near = [it for it in ids if it.startswith(f"{name}-")]
    advice = f" There are {' and '.join(near)}." if near else did_you_mean(name, ids)
    raise UserError(
        f'There is no exercise "{wanted}".{advice} See: python tools/steps.py exercise list'
    )


def loaded(chapter: Chapter, folder: Path, is_only: bool = True) -> Exercise:
    """The exercise in this folder; UserError for a missing file or a key that is wrong."""
    where = f"steps/{chapter.name}/exercises/{folder.name}"
    recipe = record(Recipe, read_toml(folder / "exercise.toml", where), f"{where}/exercise.toml")
    if len(recipe.hints) != HINTS:
        raise UserError(f"{where}/exercise.toml: write {HINTS} hints, not {len(recipe.hints)}.")
    for name in _FILES:
        if not (folder / name).is_file():
            raise UserError(f"{where}/{name} is missing; write it.")
    number = f"{chapter.number:02d}"
    return Exercise(number if is_only else f"{number}-{folder.name}", chapter, folder, recipe)
