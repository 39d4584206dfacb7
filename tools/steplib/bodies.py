"""The bodies of a module's functions and classes, and what stands there when one is taken out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RAISE = 'raise NotImplementedError("this is a stub")'
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

    def stubbed(self, text: str, statement: str = RAISE) -> str:
        """The file's text with this symbol's body replaced by one that raises."""
        rows, pad = text.splitlines(keepends=True), " " * self.column
        stub = f"{pad}{statement}\n"
        if self.is_class:
            stub = f"{pad}def __new__(cls, *args, **kwargs):\n{pad}    {statement}\n"
        return "".join([*rows[: self.lines[0] - 1], stub, *rows[self.lines[1] :]])


def symbols(path: str, text: str) -> list[Symbol]:
    """Every function, class and method of a file that has a body to replace."""
    return list(_symbols(path, ast.parse(text).body, ""))


def _symbols(path: str, body: Iterable[ast.stmt], prefix: str) -> Iterator[Symbol]:
    for node in body:
        if not isinstance(node, _Definition):
            continue
        name, real = prefix + node.name, _without_docstring(node)
        if real and not is_interface(node) and not _only_refuses(real):
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


def is_interface(node: _Definition) -> bool:
    """An abstract method or a Protocol: nothing ever runs it."""
    names = [ast.unparse(mark) for mark in node.decorator_list]
    bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
    marks = {name.rpartition(".")[2] for name in [*names, *bases]}
    return bool(marks & {"abstractmethod", "overload", "Protocol", "TypedDict"})


def _only_refuses(body: list[ast.stmt]) -> bool:
    """A body that says "a subclass does this" is a stub already."""
    return len(body) == 1 and ast.unparse(body[0]).startswith("raise NotImplementedError")
