"""Which mutants belong to a chapter: those of the symbols that it adds, changes or puts to use."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from steplib.mutation.mutant import Mutant, mutants
from steplib.mutation.source import Source
from steplib.paths import sha256
from steplib.untouched import added_lines

if TYPE_CHECKING:
    from steplib.book import Book


def mutants_of(book: Book, number: int) -> list[Mutant]:
    """Every mutant of the chapter, by file and place."""
    added, found = added_lines(book, number), []
    asleep, awake = _inert(book, number)
    for path, file in book.tree(number).files.items():
        if path not in added and path not in {symbol.partition("::")[0] for symbol in awake}:
            continue
        source = Source(path, file.text())
        inside = whole_functions(source, added.get(path, set()))
        inside = (inside - _lines_of(source, asleep)) | _lines_of(source, awake)
        found += [m for m in mutants(source) if m.lines[0] in inside]
    return found


def _inert(book: Book, number: int) -> tuple[set[str], set[str]]:
    """The symbols that are here for a later chapter only, and those that this one puts to use."""
    earlier = [chapter for chapter in book.chapters if chapter.number <= number]
    entries = [entry for chapter in earlier for entry in chapter.manifest.inert]
    asleep = {entry.symbol for entry in entries if entry.chapter > number}
    return asleep, {entry.symbol for entry in entries if entry.chapter == number} - asleep


def sample(found: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """`size` of them in the order of the book; a small edit of a file changes few of them."""
    if size is None or size >= len(found):
        return found
    drawn = sorted(found, key=lambda mutant: _rank(mutant, seed))[:size]
    chosen = {mutant.id for mutant in drawn}
    return [mutant for mutant in found if mutant.id in chosen]


def _rank(mutant: Mutant, seed: int) -> float:
    return random.Random(sha256(f"{seed}\0{mutant.name}".encode())).random()


def whole_functions(source: Source, lines: set[int]) -> set[int]:
    """The lines, and all of every function that holds one of them."""
    whole = set(lines)
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = _lines(node)
            if own & lines:
                whole |= own
    return whole


def _lines_of(source: Source, wanted: set[str]) -> set[int]:
    """All lines of these symbols that stand in this file."""
    named = _named(ast.parse(source.text).body, "")
    found = [lines for name, lines in named if f"{source.path}::{name}" in wanted]
    return set().union(*found)


def _named(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, set[int]]]:
    """The lines of each function, class, field and constant by its name."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, _lines(node)
            case ast.ClassDef(name=name):
                yield prefix + name, _lines(node)
                yield from _named(node.body, f"{prefix}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield prefix + name, _lines(node)


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
