"""Test files without their judges: what runs beside a student's code holds no expected value."""

from __future__ import annotations

import ast
from pathlib import Path

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def probes_only(path: Path) -> str:
    """The file with judges, and all that only judges use, as blank lines; line numbers stay."""
    text = path.read_text(encoding="utf-8")
    probes = {name for name in _defined(ast.parse(text).body) if name.startswith("probe_")}
    return without_unused(text, probes)


def without_unused(text: str, wanted: set[str]) -> str:
    """The source with the wanted definitions and what they use; bare statements stay."""
    module = ast.parse(text)
    uses = {name: _names(node) for node in module.body for name in _defined([node])}
    needed: set[str] = set()
    for node in module.body:
        if not _defined([node]):
            wanted = wanted | _names(node)
    pending = [name for name in wanted if name in uses]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [other for other in uses[name] if other in uses]
    rows = text.split("\n")
    for node in module.body:
        names = _defined([node])
        if isinstance(node, ast.ImportFrom) and node.module != "__future__" and names:
            kept = [alias for alias in node.names if (alias.asname or alias.name) in needed]
            line = f"from {node.module} import {', '.join(map(ast.unparse, kept))}" if kept else ""
            _blank(rows, node, line)
        elif names and not names & needed:
            _blank(rows, node)
    return "\n".join(rows)


def _blank(rows: list[str], node: ast.stmt, line: str = "") -> None:
    decorators = node.decorator_list if isinstance(node, _Named) else []
    first = min([node.lineno, *(mark.lineno for mark in decorators)])
    assert node.end_lineno is not None
    rows[first - 1 : node.end_lineno] = [line, *[""] * (node.end_lineno - first)]


def _defined(body: list[ast.stmt]) -> set[str]:
    """The names that statements of a module bind; none for what must run in any case."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, _Named):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if getattr(node, "module", "") != "__future__":
                found |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return found


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
