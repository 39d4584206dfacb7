"""A chapter's tasks: which symbols belong together, and the three hints for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from steplib.errors import UserError, did_you_mean
from steplib.records import read_toml, record

if TYPE_CHECKING:
    from steplib.book import Chapter

STEPS = ("nudge", "idea", "outline")
_BEFORE_A_PATH = re.compile(r"^\S*/(?=minisgl/|minimal_engine\.py)")
_OF_A_STUB = re.compile(r"chapter (?P<number>\d\d), (?P<path>\S+\.py): write (?P<name>[\w.]+)")


@dataclass(frozen=True)
class Task:
    """Bodies that are best written together. symbols: `path::name`, or `path` for a whole file."""

    name: str
    symbols: tuple[str, ...]
    nudge: str
    idea: str
    outline: str

    @property
    def paths(self) -> list[str]:
        """The task's files, in the order of its symbols."""
        return list(dict.fromkeys(symbol.partition("::")[0] for symbol in self.symbols))

    def hint(self, step: int) -> str:
        """The text of step 1, 2 or 3."""
        return (self.nudge, self.idea, self.outline)[step - 1].strip()


@dataclass(frozen=True)
class _File:
    task: tuple[Task, ...]


def load(chapter: Chapter) -> tuple[Task, ...]:
    """The tasks of steps/NN-slug/hints.toml; UserError when the file is missing or unusable."""
    path = chapter.folder / "hints.toml"
    where = "/".join(path.parts[-3:])
    return record(_File, read_toml(path, where), where).task


def find(tasks: tuple[Task, ...], chapter: Chapter, word: str) -> list[Task]:
    """The tasks that a word means: one for a task's name or a symbol, maybe several for a file.

    UserError for a word that means none.
    """
    wanted = _wanted(chapter, word.strip())
    means = {task: list(_words(task)) for task in tasks}
    found = [task for task, words in means.items() if wanted.lower() in map(str.lower, words)]
    if found:
        return found
    near = did_you_mean(wanted, [word for words in means.values() for word in words])
    raise UserError(
        f'chapter {chapter.number:02d} has no task "{wanted}".{near} '
        f"All of them: python tools/steps.py hint {chapter.number:02d}"
    )


def _wanted(chapter: Chapter, word: str) -> str:
    """`path::name` for the error of a stub; a file's path as the book has it."""
    stub = _OF_A_STUB.search(word)
    if stub is None:
        return _BEFORE_A_PATH.sub("", word)
    if int(stub["number"]) != chapter.number:
        raise UserError(f"that error is of chapter {stub['number']}; ask: hint {stub['number']}")
    return f"{stub['path']}::{stub['name']}"


def _words(task: Task) -> Iterator[str]:
    """Every word that means the task; upper and lower case are the same."""
    yield task.name
    for symbol in task.symbols:
        path, _, name = symbol.partition("::")
        yield from (symbol, path, PurePosixPath(path).name)
        if name:
            around, own = name.split(".")[0], name.split(".")[-1]
            yield from (name, around, own, f"{path}::{around}")
