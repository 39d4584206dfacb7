"""Which of the files that were handed in are a chapter's package, and which answer an exercise."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from steplib.errors import sentence
from steplib.exercises.exercise import Exercise
from steplib.exercises.laying import ANSWER
from steplib.grading.intake import HandedIn
from steplib.manifest import ENGINE
from steplib.starter import contents, starters
from steplib.workfolder import MANIFEST

if TYPE_CHECKING:
    from steplib.book import Book


@dataclass
class Package:
    """One working folder. chapter: the newest that it is for. files: those of that chapter's tree.

    missing: what the tree has and the folder lacks. others: what is no file of that tree.
    """

    folder: str
    chapter: int
    files: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def packages(book: Book, handed_in: HandedIn, asked_for: list[int]) -> dict[int, Package]:
    """For each chapter the package to grade: its own, or the next later one that there is."""
    if not asked_for:
        return {}
    newest = asked_for[-1]
    every = [_package(book, handed_in, root, newest) for root in sorted(_roots(handed_in.files))]
    found = {}
    for number in asked_for:
        later = [package for package in every if package.chapter >= number]
        if later:
            found[number] = min(later, key=lambda package: (package.chapter, package.folder))
    return found


def answer(handed_in: HandedIn, exercise: Exercise) -> bytes | None:
    """The answer to an exercise: ID/answer.py, at any depth; the shallowest where there are two."""
    names = {exercise.id, f"{exercise.chapter.number:02d}-{exercise.slug}"}
    places = [path for path in handed_in.files if path.endswith(f"/{ANSWER}")]
    fitting = [path for path in places if PurePosixPath(path).parent.name in names]
    best = min(fitting, key=lambda path: (path.count("/"), path), default=None)
    return handed_in.files[best] if best is not None else None


def _roots(files: dict[str, bytes]) -> set[str]:
    """The folders that hold a package or the first chapter's engine; "" is the submission's own."""
    found = set()
    for path in files:
        parts = PurePosixPath(path).parts
        if "minisgl" in parts[:-1]:
            found.add("/".join(parts[: parts.index("minisgl")]))
        elif parts[-1] == ENGINE:
            found.add("/".join(parts[:-1]))
    return found


def _package(book: Book, handed_in: HandedIn, root: str, newest: int) -> Package:
    prefix = f"{root}/" if root else ""
    inside = {p.removeprefix(prefix): d for p, d in handed_in.files.items() if p.startswith(prefix)}
    package = Package(root or ".", _chapter(book, inside.get(MANIFEST), newest))
    expected = book.reference(package.chapter).files
    package.files = {path: inside[path] for path in expected if path in inside}
    package.missing = [path for path in expected if path not in inside]
    package.others = sorted(set(inside) - set(package.files))
    return package


def _chapter(book: Book, manifest: bytes | None, newest: int) -> int:
    """What `start` wrote down; a package without that is taken for the newest chapter's."""
    try:
        number = int(json.loads(manifest or b"")["chapter"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return newest
    return number if number in [chapter.number for chapter in book.chapters] else newest


def notes(book: Book, package: Package, numbers: list[int]) -> Iterator[str]:
    """What a person should know: files too few and too many, no Python, and the book's own.

    numbers: the chapters that are graded on the package.
    """
    if package.missing:
        yield f"{package.folder}: missing: {', '.join(package.missing)}."
    for path in package.others:
        if path.startswith("minisgl/") and ".bak-" not in path:
            yield f"{path} was left aside: chapter {package.chapter:02d} has no such file."
        elif PurePosixPath(path).name in ("conftest.py", "pairs.py", "book.py") or (
            path.endswith(".py") and path.startswith(("tests/", "test_"))
        ):
            yield f"{path} was left aside: the book's own tests are run."
        elif "/" not in path and path.endswith(".py"):
            yield f"{path} was left aside: it is no file of chapter {package.chapter:02d}."
    for path, data in package.files.items():
        try:
            ast.parse(data, path)
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: this is not valid Python: {sentence(error.msg)}"
        except (ValueError, RecursionError, MemoryError) as error:
            yield f"{path} can't be read as Python: {error}."
    for number in numbers:
        yield from _of_the_book(book, package, number)


def is_only_laid(book: Book, package: Package, number: int) -> bool:
    """Whether all of the chapter is as `start` of a later one lays it: nothing of it was written.

    Else who begins at chapter 09 and writes nothing had half of the points of 07 and 08.
    """
    laid, tasks = contents(book, package.chapter), _tasks(book, number)
    is_later = package.chapter > number and bool(tasks)
    return is_later and all(package.files.get(path) == laid.get(path) for path in tasks)


def _tasks(book: Book, number: int) -> list[str]:
    """The files in which the chapter leaves a body open."""
    tree = book.reference(number).files
    return [path for path, it in starters(book, number).items() if it.text != tree[path].text()]


def _of_the_book(book: Book, package: Package, number: int) -> Iterator[str]:
    """Files with a task of the chapter that are byte for byte the book's, in this or a later form.

    A folder that was started at a later chapter has the book's files of this one.
    """
    numbers = [it.number for it in book.chapters if number <= it.number <= package.chapter]
    trees = [book.reference(it).files for it in numbers]
    tasks = _tasks(book, number)
    own = {path: {tree[path].data for tree in trees if path in tree} for path in tasks}
    same = [path for path in tasks if package.files.get(path) in own[path]]
    if same:
        verb = "is" if len(same) == 1 else "are"
        which = f"of the {len(tasks)} files of chapter {number:02d} with tasks"
        yield f"{len(same)} {which} {verb} the book's own, byte for byte."
