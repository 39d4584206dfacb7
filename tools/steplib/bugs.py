"""The list of public faults, and the tests that are marked with their ids."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steplib.paths import DATA, shown
from steplib.records import read_toml, record

MARK = "public_bug"


@dataclass(frozen=True)
class Bug:
    """A row of the list."""

    id: str
    area: str
    title: str


@dataclass(frozen=True)
class _Bugs:
    bug: tuple[Bug, ...]


def load() -> tuple[Bug, ...]:
    """data/public_bugs.toml, in its order: area by area."""
    where = "tools/steplib/data/public_bugs.toml"
    return record(_Bugs, read_toml(DATA / "public_bugs.toml", where), where).bug


def marks(root: Path) -> dict[str, list[str]]:
    """For each id, the tests marked with it, as `tests/test_ch02_ops.py::probe_norm`."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("*.py")):
        for name, bug_id in _marked(path.read_text(encoding="utf-8")):
            found.setdefault(bug_id, []).append(f"{shown(path, root)}::{name}")
    return found


def _marked(source: str) -> Iterator[tuple[str, str]]:
    """(function, id) for each mark; the source is read, never run."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and _name(mark.func) == MARK:
                for argument in mark.args:
                    if isinstance(argument, ast.Constant):
                        yield node.name, str(argument.value)


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))
