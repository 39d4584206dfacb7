"""An answer beside upstream's code for the symbol that the exercise is about."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import catalogue
from steplib.diff.heads import heads
from steplib.errors import UserError
from steplib.symbols import symbols
from steplib.upstream.checkout import Checkout

if TYPE_CHECKING:
    from steplib.exercises.exercise import Exercise

_WHOLE = 10_000  # lines of context, so that a difference shows all of the code


def lines(exercise: Exercise, answer: str, checkout: Path | None) -> Iterator[str]:
    """Where upstream has the symbol; with a checkout also its code, and what yours has for it."""
    symbol = exercise.recipe.upstream
    if not symbol:
        raise UserError(f"exercise {exercise.id} is about no symbol of upstream.")
    known = catalogue.load()
    path, _, name = symbol.partition("::")
    yield f"upstream  {symbol}"
    yield f"          {known.permalink(symbol)}"
    yield from _indented(heads(known.files[path])[name])
    if checkout is None:
        yield "code      add --upstream PATH, a checkout of mini-sglang, to see both"
        return
    theirs = _theirs(Checkout.at(checkout), known.files[path]["path"], name)
    yield from _beside(theirs, _own(answer, name), answer)


def _theirs(checkout: Checkout, path: str, name: str) -> str:
    text = checkout.sources.get(path, "")
    found = symbols(text)
    if name not in found:
        commit = catalogue.load().commit
        raise UserError(f"{checkout.path / path} has no {name}; check out commit {commit[:12]}.")
    return textwrap.dedent(found[name].source(text.split("\n")))


def _own(answer: str, name: str) -> str | None:
    """The answer's symbol of that name, or of its last part."""
    try:
        found = symbols(answer)
    except SyntaxError as error:
        raise UserError(f"your answer, line {error.lineno}: {error.msg}; mend it first.") from None
    wanted = next((it for it in (name, name.rpartition(".")[2]) if it in found), None)
    return textwrap.dedent(found[wanted].source(answer.split("\n"))) if wanted else None


def _beside(theirs: str, own: str | None, answer: str) -> Iterator[str]:
    """A difference where both have the symbol; else one code after the other."""
    if own is not None:
        rows = theirs.split("\n"), own.split("\n")
        yield from difflib.unified_diff(*rows, "upstream", "yours", lineterm="", n=_WHOLE)
        return
    yield "upstream's code:"
    yield from _indented(theirs, 2)
    yield "your answer, which goes about it by other names:"
    yield from _indented(answer.rstrip(), 2)


def _indented(text: str, by: int = 10) -> Iterator[str]:
    yield from ((" " * by + row).rstrip() for row in text.split("\n"))
