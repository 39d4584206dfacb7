"""The definitions of a Python source: where each symbol stands, decorators and comment included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Symbol:
    """One definition or assignment; `name` is dotted inside a class. Lines count from 1."""

    name: str
    node: ast.stmt
    first: int
    last: int

    def source(self, lines: list[str]) -> str:
        return "\n".join(lines[self.first - 1 : self.last])


def symbols(source: str) -> dict[str, Symbol]:
    """Every symbol of a module by name; of a name bound twice, the last."""
    return {symbol.name: symbol for symbol in _walk(ast.parse(source).body, source.split("\n"), "")}


def _walk(body: list[ast.stmt], lines: list[str], prefix: str) -> Iterator[Symbol]:
    for node in body:
        for name in bound_names(node):
            yield Symbol(
                prefix + name, node, first_line(node, lines), node.end_lineno or node.lineno
            )
        if isinstance(node, ast.ClassDef):
            yield from _walk(node.body, lines, f"{prefix}{node.name}.")
        if isinstance(node, ast.If | ast.Try):
            yield from _walk(node.body, lines, prefix)


def bound_names(node: ast.stmt) -> list[str]:
    """The names that a definition or assignment binds."""
    if isinstance(node, Definition):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def first_line(node: ast.stmt, lines: list[str]) -> int:
    """The line where a reader would begin to read it: its first decorator or leading comment."""
    first = node.lineno
    if isinstance(node, Definition) and node.decorator_list:
        first = min(first, *(decorator.lineno for decorator in node.decorator_list))
    while first > 1 and lines[first - 2].strip().startswith("#"):
        first -= 1
    return first


def is_public(name: str) -> bool:
    """No leading underscore, or a dunder that callers use."""
    last = name.rsplit(".", 1)[-1]
    return not last.startswith("_") or (last.startswith("__") and last.endswith("__"))
