"""`exercise {list,start,check,diff} [K]`: the exercises of the chapters."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

from steplib.book import Book
from steplib.errors import UserError
from steplib.exercises import Exercise, attempt, every, find, laying, told, versus
from steplib.models import ensure, models_dir
from steplib.process import Launcher


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when it was done or passed, 1 when the answer is not right yet."""
    book = Book.load(book_root)
    if args.action == "list":
        print(*told.listed(every(book)), sep="\n")
        return 0
    if args.exercise is None:
        raise UserError(f"name the exercise: exercise {args.action} K; see exercise list")
    return _ACTIONS[args.action](book, find(book, args.exercise), args)


def _start(book: Book, exercise: Exercise, args: argparse.Namespace) -> int:
    if args.into is None:
        raise UserError(f"name a folder: exercise start {exercise.id} --into DIR")
    laid = laying.lay(book, exercise, Path(args.into))
    place = Path(args.into, exercise.id)
    for path in laid.written:
        print(f"{place / path} is laid")
    for path in laid.kept:
        print(f"{place / path} is kept as you have it")
    print(f"read  {place / laying.README}")
    mine = shlex.quote(str(place))
    print(f"next  python tools/steps.py exercise check {exercise.id} --mine {mine}")
    return 0


def _check(book: Book, exercise: Exercise, args: argparse.Namespace) -> int:
    if args.hint is not None:
        print(*told.hint(exercise, args.hint), sep="\n")
        return 0
    for model in exercise.recipe.models:
        ensure(model)
    answer = laying.answer_in(exercise, args.mine)
    found = attempt(book, exercise, answer.read_bytes(), Launcher(models_dir()))
    print(*told.checked(exercise, found, shlex.quote(str(args.mine or answer))), sep="\n")
    return 0 if found.is_passed else 1


def _diff(_: Book, exercise: Exercise, args: argparse.Namespace) -> int:
    answer = laying.answer_in(exercise, args.mine)
    checkout = Path(args.upstream) if args.upstream else None
    try:
        text = answer.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{answer} is not UTF-8; save it as UTF-8.") from None
    print(*versus.lines(exercise, text, checkout), sep="\n")
    return 0


_ACTIONS: dict[str, Callable[[Book, Exercise, argparse.Namespace], int]] = {
    "start": _start,
    "check": _check,
    "diff": _diff,
}
