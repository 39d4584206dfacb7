"""`hint NN [TASK]`: a nudge, an idea, an outline, and only then the solution."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from steplib.book import Book
from steplib.errors import UserError
from steplib.hints import load, showing
from steplib.hints.seen import Seen
from steplib.workfolder import WorkFolder


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Without a task the list of them; with one, one step more of its hints."""
    book = Book.load(book_root)
    chapter = book.chapter(args.chapter)
    folder = _folder(args.mine)
    shown = shlex.quote(args.mine or str(folder)) if folder else None
    tasks = load(chapter)
    if not args.task:
        told = showing.table(chapter, tasks, folder)
        mine = f" --mine {shown}" if shown else ""
        print(*told, sep="\n")
        print(f"next  python tools/steps.py hint {chapter.number:02d} TASK{mine}")
        return 0
    task = showing.chosen(tasks, chapter, " ".join(args.task), folder)
    step = _step(args, folder, chapter.number, task.name)
    steps = range(1, step + 1) if args.again else [step]
    for line in showing.lines(book, chapter.number, task, steps, shown):
        print(line)
    if folder:
        Seen.load(folder).note(chapter.number, task.name, step)
    return 0


def _folder(mine: str | None) -> Path | None:
    """The folder that is named, or the one in which the command was typed; hints need none."""
    if mine:
        return WorkFolder.around(Path(mine).resolve()).path
    try:
        return WorkFolder.around(Path.cwd()).path
    except UserError:
        return None


def _step(args: argparse.Namespace, folder: Path | None, number: int, task: str) -> int:
    if sum(map(bool, (args.step, args.solution, args.again))) > 1:
        raise UserError("--step, --solution and --again exclude each other; give one of them.")
    if args.solution:
        return showing.SOLUTION
    if args.step:
        return int(args.step)
    seen = Seen.load(folder).of(number, task) if folder else 0
    if args.again and seen < 1:
        raise UserError(f'no hint for "{task}" was seen in a working folder; leave out --again.')
    if args.again:
        return min(seen, showing.SOLUTION)
    return min(seen + 1, showing.last_step(folder, number))
