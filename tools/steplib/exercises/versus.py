"""An answer beside upstream's code for the symbol that the exercise is about."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import catalogue
from steplib.errors import UserError
from steplib.symbols import symbols

if TYPE_CHECKING:
    from steplib.exercises.exercise import Exercise


def lines(exercise: Exercise, answer: str, checkout: Path | None) -> Iterator[str]:
    """Both codes and their difference; without a checkout only where upstream's code stands."""
    symbol = exercise.recipe.upstream
    if not symbol:
        raise UserError(f"Exercise {exercise.id} is about no symbol of upstream.")
    known = catalogue.load()
    path, _, name = symbol.partition("::")
    yield f"upstream  {symbol}{_signature(known, path, name)}"
    yield f"          {known.permalink(symbol)}"
    own = _own(answer, name)
    if checkout is None:
        yield from _shown("yours", own)
        yield "to see upstream's code here, name a checkout of it: --upstream PATH"
        return
    theirs = _theirs(known, checkout, path, name)
    yield from difflib.unified_diff(theirs, own, "upstream", "yours", lineterm="", n=99)


def _signature(known: catalogue.Catalogue, path: str, name: str) -> str:
    """What the catalogue says behind the name: `(self) -> int`; nothing for a class."""
    outer, _, inner = name.partition(".")
    every: list[dict[str, Any]] = known.files[path]["symbols"]
    found = next((it for it in every if it["name"] == outer), {})
    if inner:
        found = next((it for it in found.get("methods", ()) if it["name"] == inner), {})
    return str(found.get("signature", ""))


def _own(answer: str, name: str) -> list[str]:
    """The answer's symbol of that name, or of its last part; else all of the answer."""
    found, rows = symbols(answer), answer.split("\n")
    for wanted in (name, name.rpartition(".")[2]):
        if wanted in found:
            return _unindented(found[wanted].source(rows))
    return _unindented(answer)


def _theirs(known: catalogue.Catalogue, checkout: Path, path: str, name: str) -> list[str]:
    file = checkout / known.files[path]["path"]
    if not file.is_file():
        raise UserError(f"{file} is missing; name a checkout of {known.repository}.")
    text = file.read_text(encoding="utf-8")
    found = symbols(text)
    if name not in found:
        raise UserError(f"{file} has no {name}; check out commit {known.commit[:12]}.")
    return _unindented(found[name].source(text.split("\n")))


def _shown(whose: str, rows: list[str]) -> Iterator[str]:
    yield f"{whose}:"
    yield from (f"  {row}".rstrip() for row in rows)


def _unindented(text: str) -> list[str]:
    return inspect.cleandoc("\n" + text).split("\n")
