"""Replaces each symbol that a chapter adds by a stub, one at a time; its check must notice.

So no part of the chapter can be idle: neither main nor tests may do its work beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import mains, pairs
from steplib.paths import write_atomically
from steplib.process import Runner
from steplib.stage import Stage, staged

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.pairs import TestFile

PROBE_LIMIT, MAIN_LIMIT = 60.0, 120.0
_RAISE = 'raise NotImplementedError("this is a stub")'
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


@dataclass(frozen=True)
class Symbol:
    """A function, class or method of a tree's file; lines: first and last line of its body."""

    path: str
    name: str
    lines: tuple[int, int]
    column: int
    is_class: bool

    def __str__(self) -> str:
        return f"{self.path}::{self.name}"

    def stubbed(self, text: str) -> str:
        """The file's text with this symbol's body replaced by one that raises."""
        rows, pad = text.splitlines(keepends=True), " " * self.column
        stub = f"{pad}{_RAISE}\n"
        if self.is_class:
            stub = f"{pad}def __new__(cls, *args, **kwargs):\n{pad}    {_RAISE}\n"
        return "".join([*rows[: self.lines[0] - 1], stub, *rows[self.lines[1] :]])


def added_symbols(book: Book, number: int) -> list[Symbol]:
    """What the chapter adds: in created files everything, in modified ones the new names."""
    chapter, tree = book.chapter(number), book.tree(number)
    inert = {entry.symbol for c in book.chapters for entry in c.manifest.inert}
    earlier = [c.number for c in book.chapters if c.number < number]
    before = book.tree(earlier[-1]).files if earlier else {}
    found = []
    for path in (*chapter.manifest.creates, *chapter.manifest.modifies):
        old = {s.name for s in symbols(path, before[path].text())} if path in before else set()
        now = symbols(path, tree.files[path].text())
        found += [s for s in now if s.name not in old and str(s) not in inert]
    return found


def symbols(path: str, text: str) -> list[Symbol]:
    """Every function, class and method of a file that has a body to replace."""
    return list(_symbols(path, ast.parse(text).body, ""))


def _symbols(path: str, body: Iterable[ast.stmt], prefix: str) -> Iterator[Symbol]:
    for node in body:
        if not isinstance(node, _Definition):
            continue
        name, real = prefix + node.name, _without_docstring(node)
        if real and not _is_interface(node) and not _only_refuses(real):
            last = node.end_lineno or node.lineno
            is_class = isinstance(node, ast.ClassDef)
            lines = (_first_line(real[0]), last)
            yield Symbol(path, name, lines, real[0].col_offset, is_class)
        if isinstance(node, ast.ClassDef):
            yield from _symbols(path, node.body, name + ".")


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    return min([node.lineno, *(mark.lineno for mark in decorators)])


def _without_docstring(node: _Definition) -> list[ast.stmt]:
    """The statements that do something; a body on the line of its `def` counts as none."""
    rest = [
        statement
        for statement in node.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        and not isinstance(statement, ast.Pass)
    ]
    return [statement for statement in rest if statement.lineno > node.lineno]


def _is_interface(node: _Definition) -> bool:
    """An abstract method or a Protocol: nothing ever runs it."""
    names = [ast.unparse(mark) for mark in node.decorator_list]
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    marks = {name.rpartition(".")[2] for name in [*names, *bases]}
    return bool(marks & {"abstractmethod", "overload", "Protocol", "TypedDict"})


def _only_refuses(body: list[ast.stmt]) -> bool:
    """A body that says "a subclass does this" is a stub already."""
    return len(body) == 1 and ast.unparse(body[0]).startswith("raise NotImplementedError")


@dataclass
class Substitution:
    """The symbols of one chapter on one stage."""

    book: Book
    chapter: Chapter
    tests: list[TestFile]
    stage: Stage
    runner: Runner
    model: Path
    reached: dict[str, dict[str, dict[str, set[int]]]] = field(default_factory=dict)

    def survivors(self) -> list[Symbol]:
        """The symbols whose stub nobody notices."""
        for tests in self.tests:
            self.reached[tests.path.name] = self._reached_by(tests)
        return [s for s in added_symbols(self.book, self.chapter.number) if not self.notices(s)]

    def _reached_by(self, tests: TestFile) -> dict[str, dict[str, set[int]]]:
        """Which lines each probe runs, by probe and file."""
        body = {
            "module": tests.path.stem,
            "probes": [[p.name, p.seed] for p in tests.pairs],
            "by_probe": True,
        }
        outcome = self.runner.run(self.stage.job("probes", body, coverage=True), PROBE_LIMIT)
        by_probe = outcome.end.get("by_probe", {})
        return {n: {f: set(ls) for f, ls in files.items()} for n, files in by_probe.items()}

    def notices(self, symbol: Symbol) -> bool:
        """Whether a probe, or else the main, fails with a stub in the symbol's place."""
        file = self.stage.tree / symbol.path
        text = file.read_text(encoding="utf-8")
        write_atomically(file, symbol.stubbed(text))
        try:
            return any(self._fails(t, symbol) for t in self.tests) or self._main_fails()
        finally:
            write_atomically(file, text)

    def _fails(self, tests: TestFile, symbol: Symbol) -> bool:
        """Tries a probe that runs the symbol's lines first, and then the others that do."""
        body = set(range(symbol.lines[0], symbol.lines[1] + 1))
        near = [
            p.name
            for p in tests.pairs
            if self.reached[tests.path.name].get(p.name, {}).get(symbol.path, set()) & body
        ]
        if symbol.is_class:
            near = near or [p.name for p in tests.pairs]
        for chosen in (near[:1], near[1:]):
            if chosen and self._ran(tests, chosen) not in ("passed", "nothing ran"):
                return True
        return False

    def _ran(self, tests: TestFile, names: list[str]) -> str:
        only = frozenset(names)
        return pairs.run(tests, self.stage, self.runner, limit=PROBE_LIMIT, only=only).verdict

    def _main_fails(self) -> bool:
        body = {"script": "main.py", "argv": ["--model", str(self.model)]}
        second = self.chapter.manifest.main.second_process
        job = self.stage.job("main", body, second_process=second)
        hashes = {
            p.relative_to(self.stage.tree).as_posix(): _sha256(p)
            for p in self.stage.tree.rglob("*.py")
        }
        outcome = self.runner.run(job, MAIN_LIMIT)
        return not mains.judged(outcome, hashes, self.model.name).is_passed


def _sha256(path: Path) -> str:
    from steplib.paths import sha256

    return sha256(path.read_bytes())


def survivors(
    book: Book, number: int, files: list[Path], runner: Runner, model: Path
) -> list[Symbol]:
    """The symbols of a chapter that nothing would miss."""
    chapter = book.chapter(number)
    with staged(book.tree(number), book.root, [chapter.main, *files]) as stage:
        tests = [pairs.read(file) for file in files]
        return Substitution(book, chapter, tests, stage, runner, model).survivors()
