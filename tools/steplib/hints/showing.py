"""What a reader sees of a task's hints: one step more with each call."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from steplib import starter
from steplib.errors import UserError
from steplib.hints.seen import Seen
from steplib.hints.solution import solution
from steplib.hints.tasks import STEPS, Task, find, load
from steplib.passes import has_passed
from steplib.workfolder import WorkFolder

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

SOLUTION = len(STEPS) + 1
_WIDTH = 88


def next_hint(book: Book, number: int, folder: Path, symbol_or_file: str) -> str:
    """One step more for the task of a symbol, a file or a stub's error; it is remembered."""
    chapter = book.chapter(number)
    tasks = load(chapter)
    try:
        task = chosen(tasks, chapter, symbol_or_file, folder)
    except UserError:  # there is nothing to write, but beside it or elsewhere there may be
        path = symbol_or_file.partition("::")[0]
        beside = [task for task in tasks if path in task.paths]
        found = beside or [task for task in tasks if is_unwritten(task, folder)]
        if not found:
            raise
        task = _first_unwritten(found, folder)
    seen = Seen.load(folder)
    step = min(seen.of(number, task.name) + 1, last_step(folder, number))
    seen.note(number, task.name, step)
    return "\n".join(lines(book, number, task, [step], shlex.quote(str(folder))))


def chosen(tasks: tuple[Task, ...], chapter: Chapter, word: str, folder: Path | None) -> Task:
    """The task that is meant; of a file's tasks the first that the reader still has to write."""
    found = find(tasks, chapter, word)
    return found[0] if folder is None else _first_unwritten(found, folder)


def _first_unwritten(found: list[Task], folder: Path) -> Task:
    return next((task for task in found if is_unwritten(task, folder)), found[0])


def is_unwritten(task: Task, folder: Path) -> bool:
    """Whether a body of the task still is the starter's."""
    return any(_is_stub(folder, *symbol.split("::")) for symbol in task.symbols)


def _is_stub(folder: Path, path: str, name: str = "") -> bool:
    text = (WorkFolder(folder.resolve()).read(path) or b"").decode("utf-8", "replace")
    wanted = re.escape(name) if name else r"[\w.]+"
    return re.search(rf'write {wanted}"\s*\)', text) is not None


def last_step(folder: Path | None, number: int) -> int:
    """The outline; after a recorded pass of the chapter, the solution."""
    return SOLUTION if folder is not None and has_passed(folder, number) else len(STEPS)


def lines(
    book: Book, number: int, task: Task, steps: Sequence[int], shown: str | None
) -> Iterator[str]:
    """These steps, and what to do after the last of them. shown: the folder as it was given."""
    yield f"chapter {number:02d}: {task.name}  ({_files(task)})"
    for step in steps:
        yield from _one(book, number, task, step)
    yield ""
    yield from _commands(number, task, steps, shown)


def _one(book: Book, number: int, task: Task, step: int) -> Iterator[str]:
    if step == SOLUTION:
        starters = starter.starters(book, number)
        yield f"\nthe book's own form\n\n{solution(book, number, task, starters)}"
    else:
        title = STEPS[step - 1]
        yield f"\n{title} ({step} of {len(STEPS)})"
        yield from _wrapped(task.hint(step), is_list=title == "outline")


def _commands(number: int, task: Task, steps: Sequence[int], shown: str | None) -> Iterator[str]:
    asked = f"python tools/steps.py hint {number:02d} {shlex.quote(task.name)}"
    asked += f" --mine {shown}" if shown else ""
    last = steps[-1]
    if last < len(STEPS):
        yield f"more hints  {asked}" + ("" if shown else f" --step {last + 1}")
    elif last == len(STEPS):
        yield f"solution  {asked} --solution"
    if shown and len(steps) < last:
        yield f"all so far  {asked} --again"
    if shown:
        yield f"next  python tools/steps.py check {number:02d} --mine {shown}"


def table(chapter: Chapter, tasks: tuple[Task, ...], folder: Path | None) -> Iterator[str]:
    """The chapter's tasks with their files and, of a working folder, the hints that were seen."""
    width = max(len(task.name) for task in tasks)
    seen = Seen.load(folder) if folder else None
    yield f"tasks of chapter {chapter.name}"
    for task in tasks:
        told = f"{_told(seen.of(chapter.number, task.name)):<9}  " if seen else ""
        yield f"  {task.name:<{width}}  {told}{_files(task)}"


def _told(step: int) -> str:
    return ("-", *STEPS, "solution")[min(step, SOLUTION)]


def _wrapped(text: str, is_list: bool) -> Iterator[str]:
    """The text as a paragraph, or its sentences one below the other."""
    plain = " ".join(text.split())
    for part in re.split(r"(?<=[.?]) ", plain) if is_list else [plain]:
        first, later = ("- ", "  ") if is_list else ("", "")
        yield textwrap.fill(part, _WIDTH, initial_indent=first, subsequent_indent=later)


def _files(task: Task) -> str:
    """The task's files; one in the folder of the file before it by its name alone."""
    places = [PurePosixPath(path) for path in task.paths]
    pairs = zip(places, [None, *places], strict=False)
    return ", ".join(
        place.name if before and place.parent == before.parent else str(place)
        for place, before in pairs
    )
