"""Contracts from source: signatures, docstrings, fields and constants, with no bodies.

All that is public is kept, as its author wrote it. Of `__init__` the public attributes are kept
too: their names are part of the contract, since state dicts are made from them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from textwrap import indent

from steplib.signatures import Function, attributes, spoken_of
from steplib.symbols import Definition, bound_names, is_public

LONGEST_VALUE = 100  # a constant's value is shown up to this many characters


class Stub:
    """The contract of one module."""

    def __init__(self, source: str, changed_from: str | None = None) -> None:
        """`changed_from`: an earlier form; then only what is new or different is kept."""
        self.lines = source.split("\n")
        self.module = ast.parse(source)
        self._before = set(fingerprints(changed_from)) if changed_from is not None else set()

    def text(self) -> str:
        """The stub as Python, its definitions two lines apart."""
        parts = []
        if doc := _docstring(self.module):
            parts.append(self._lines(doc))
        if imports := self._exports():
            parts.append("\n".join(imports))
        also = self._private_bases() | self._private_aliases()
        members = self._members(self.module.body, "", also)
        if parts and members and members[0].startswith(("class ", "def ", "@", "async ")):
            parts[-1] += "\n"
        return "\n\n".join([*parts, *members]).strip("\n")

    def _exports(self) -> list[str]:
        """The imports and `__all__` of a module that only hands names on."""
        if any(isinstance(node, Definition) for node in self.module.body):
            return []
        kept = (ast.Import, ast.ImportFrom)
        nodes = [node for node in self.module.body if isinstance(node, kept)]
        return [self._lines(node) for node in nodes if not _is_future(node)]

    def _private_bases(self) -> set[str]:
        """Private classes that a public one extends: what they hold is public through it."""
        classes = [node for node in self.module.body if isinstance(node, ast.ClassDef)]
        return {
            base.id
            for node in classes
            for base in node.bases
            if isinstance(base, ast.Name) and base.id.startswith("_")
        }

    def _private_aliases(self) -> set[str]:
        """Private names, bound by assignment, that a public signature or field speaks of."""
        bound = (name for node in self.module.body for name in bound_names(node))
        aliases = {name for name in bound if not is_public(name)} - self._defined()
        return aliases & set(spoken_of(self.module.body))

    def _defined(self) -> set[str]:
        return {node.name for node in self.module.body if isinstance(node, Definition)}

    def _members(self, body: list[ast.stmt], prefix: str, also: set[str]) -> list[str]:
        """Each public member's stub; neighbors that are fields or constants stay together."""
        parts: list[str] = []
        in_fields = False
        for node in body:
            text = self._member(node, prefix, also)
            if not text:
                continue
            is_field = not isinstance(node, Definition)
            if is_field and in_fields:
                parts[-1] += "\n" + text
            else:
                is_apart = parts and not prefix and not (is_field and in_fields)
                parts.append("\n" + text if is_apart else text)
            in_fields = is_field
        return parts

    def _member(self, node: ast.stmt, prefix: str, also: set[str]) -> str:
        names = [name for name in bound_names(node) if is_public(name) or name in also]
        if not names or (self._is_unchanged(node, prefix) and not isinstance(node, ast.ClassDef)):
            return ""
        if isinstance(node, ast.ClassDef):
            return self._class(node, prefix)
        if isinstance(node, Function):
            return self._function(node)
        return self._assignment(node)

    def _is_unchanged(self, node: ast.stmt, prefix: str) -> bool:
        return (prefix, ast.dump(node)) in self._before

    def _class(self, node: ast.ClassDef, prefix: str) -> str:
        if self._is_unchanged(node, prefix):
            return ""
        head = self._head(node)
        if doc := _docstring(node):
            head += "\n" + self._lines(doc)
        parts = self._members(node.body, f"{prefix}{node.name}.", set())
        if not parts:
            return head if _docstring(node) else head + "\n" + " " * node.col_offset + "    ..."
        gap = "\n\n" if _docstring(node) else "\n"
        return head + gap + "\n\n".join(parts)

    def _function(self, node: Function) -> str:
        margin = " " * (node.col_offset + 4)
        parts = [self._head(node)]
        if doc := _docstring(node):
            parts.append(self._lines(doc))
        fields = list(attributes(node)) if node.name == "__init__" else []
        parts.append(indent("\n".join(fields or ["..."]), margin))
        return "\n".join(parts)

    def _head(self, node: ast.ClassDef | Function) -> str:
        """Decorators and signature, up to the colon, as they are written."""
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        body = node.body[0]
        *kept, last = self.lines[first - 1 : body.lineno]
        if last[: body.col_offset].strip():  # the body stands on the signature's last line
            return "\n".join([*kept, last[: body.col_offset].rstrip()])
        while not kept[-1].strip() or kept[-1].strip().startswith(("#", "@")):
            kept.pop()
        return "\n".join(kept)

    def _assignment(self, node: ast.stmt) -> str:
        text = self._lines(node)
        value = getattr(node, "value", None)
        if value is None or bound_names(node) == ["__all__"]:
            return text
        if len(ast.unparse(value)) <= LONGEST_VALUE:
            return text
        return " " * node.col_offset + ast.unparse(node).split("=")[0].rstrip() + " = ..."

    def _lines(self, node: ast.stmt) -> str:
        return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])


def _docstring(node: ast.Module | ast.ClassDef | Function) -> ast.stmt | None:
    return node.body[0] if ast.get_docstring(node, clean=False) is not None else None


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def fingerprints(source: str) -> Iterator[tuple[str, str]]:
    """(prefix, dump) of every member of a module, classes walked into."""
    pending: list[tuple[str, list[ast.stmt]]] = [("", ast.parse(source).body)]
    while pending:
        prefix, body = pending.pop()
        for node in body:
            yield prefix, ast.dump(node)
            if isinstance(node, ast.ClassDef):
                pending.append((f"{prefix}{node.name}.", node.body))
