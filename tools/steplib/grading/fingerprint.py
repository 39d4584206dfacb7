"""What a grade depends on, as hashes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib.cache import file_sha256
from steplib.context import test_files
from steplib.grading import isolation
from steplib.models import digest
from steplib.paths import sha256
from steplib.stage import fakes, shared_files

if TYPE_CHECKING:
    from steplib.grading.exam import Exam


def of_chapter(exam: Exam, number: int) -> list[Any]:
    """The book's part: tree, main, tests, models, and the graders' own code."""
    chapter = exam.book.chapter(number)
    tests = test_files(exam.book, chapter)
    files = [chapter.main, *tests, *fakes(exam.root, tests), *shared_files(exam.root)]
    models = [digest(folder) for folder in exam.models(number)]
    tree = exam.book.reference(number).sha256
    return [tree, list(map(file_sha256, files)), models, isolation.strictest(), own()]


def of_exercise(exam: Exam, name: str) -> list[Any]:
    """An exercise's checks, and the tree they run on."""
    exercise = exam.exercise(name)
    tree = exam.book.reference(exercise.chapter.number).sha256
    files = [exercise.folder / name for name in ("checks.py", "exercise.toml")]
    return [name, tree, list(map(file_sha256, files)), isolation.strictest(), own()]


@cache
def own() -> str:
    """One digest over the sources of this package that have a say in a verdict."""
    folder = Path(__file__).parent
    return sha256(b"\0".join(path.read_bytes() for path in sorted(folder.glob("*.py"))))
