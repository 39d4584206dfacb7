"""What a Python source offers, as data/interface.json keeps it.

Only what stands at the top of a module counts: names below `if` or `try` are left out.
"""

from __future__ import annotations

import ast
from typing import Any

from steplib.diff.outline import signature
from steplib.interface import from_source
from steplib.symbols import bound_names

Facts = dict[str, Any]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def facts(path: str, text: str) -> Facts:
    """One file's entry. path: as the repository names it."""
    found = [entry for node in ast.parse(text, path).body for entry in _entries(node)]
    exports = from_source(text).exports
    return {
        "path": path,
        "lines": len(text.splitlines()),
        "exports": None if exports is None else list(exports),
        "symbols": found,
    }


def _entries(node: ast.stmt) -> list[Facts]:
    if isinstance(node, ast.ClassDef):
        return [_class(node)]
    if isinstance(node, _Function):
        return [_function(node)]
    names = [name for name in bound_names(node) if name != "__all__"]
    return [{"kind": "constant", "name": name, **_lines(node)} for name in names]


def _class(node: ast.ClassDef) -> Facts:
    return {
        "kind": "class",
        "name": node.name,
        "bases": list(map(ast.unparse, node.bases)),
        "decorators": list(map(ast.unparse, node.decorator_list)),
        **_lines(node),
        "fields": [_field(item) for item in node.body if _is_field(item)],
        "methods": [_method(item) for item in node.body if isinstance(item, _Function)],
    }


def _is_field(item: ast.stmt) -> bool:
    return isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)


def _field(item: ast.stmt) -> Facts:
    assert isinstance(item, ast.AnnAssign)
    default = ast.unparse(item.value) if item.value else None
    kind = ast.unparse(item.annotation)
    return {"name": ast.unparse(item.target), "type": kind, "default": default}


def _method(node: _Function) -> Facts:
    marks, is_async = _marks(node)
    return {
        "name": node.name,
        "signature": signature(node),
        **_lines(node),
        "decorators": marks,
        "async": is_async,
    }


def _function(node: _Function) -> Facts:
    marks, is_async = _marks(node)
    return {
        "kind": "function",
        "name": node.name,
        "signature": signature(node),
        "decorators": marks,
        **_lines(node),
        "async": is_async,
    }


def _marks(node: _Function) -> tuple[list[str], bool]:
    return list(map(ast.unparse, node.decorator_list)), isinstance(node, ast.AsyncFunctionDef)


def _lines(node: ast.stmt) -> dict[str, int]:
    """Of the statement itself: a decorator's line is not counted."""
    return {"line": node.lineno, "end_line": node.end_lineno or node.lineno}
