"""Every place where a Python source names one of the book's modules, read from its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["import", "use", "string", "relative", "computed"]

_ROOTS = ("minisgl", "minimal_engine")
_ROOT = "|".join(_ROOTS)
_DOTTED = re.compile(rf"(?:{_ROOT})(?:\.\w+)+(?::\w+)?")
_RELATIVE = re.compile(r"\.+[a-zA-Z_]\w*(?:\.\w+)*")
_STATEMENT = re.compile(rf"^\s*(?:from|import)\s+((?:{_ROOT})\b[\w.]*)", re.MULTILINE)
_IMPORTERS = {"import_module", "__import__", "find_spec", "run_module", "resolve_name"}


@dataclass(frozen=True)
class Reference:
    """One mention of `target`: for an import `name` is the symbol that is taken from it.

    `typing_only`: under `if TYPE_CHECKING`. `bound`: what the module then calls it, if it does so
    outside its functions. `relative` is a text that may name a neighbor module; `computed` is an
    import whose module's name is put together at run time.
    """

    kind: Kind
    target: str
    line: int
    name: str | None = None
    typing_only: bool = False
    bound: str | None = None


def references(module: ast.Module, package: str | None) -> list[Reference]:
    """All references of a source, in order of line. package: the one it lies in, if any."""
    reader = _Reader(package)
    reader.visit(module)
    return sorted(reader.found(), key=lambda reference: reference.line)


def is_type_checking(test: ast.expr) -> bool:
    """Whether an `if` asks for TYPE_CHECKING."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


class _Reader(ast.NodeVisitor):
    def __init__(self, package: str | None) -> None:
        self._package = package
        self._typing_only = False
        self._depth = 0  # in how many functions and classes we are
        self._imports: list[Reference] = []
        self._strings: list[Reference] = []
        self._relative: list[Reference] = []  # texts that count where the file calls an importer
        self._chains: list[tuple[str, str, int]] = []  # root name, attributes, line
        self._aliases: dict[str, str] = {}  # local name -> dotted name
        self._rebound: set[str] = set()
        self._calls_importer = False

    def found(self) -> Iterator[Reference]:
        yield from self._imports
        yield from self._strings
        if self._calls_importer:
            yield from self._relative
        for root, attributes, line in self._chains:
            if root in self._aliases and root not in self._rebound:
                yield Reference("use", self._aliases[root] + attributes, line)

    def visit_If(self, node: ast.If) -> None:
        if not is_type_checking(node.test):
            self.generic_visit(node)
            return
        outside, self._typing_only = self._typing_only, True
        for child in node.body:
            self.visit(child)
        self._typing_only = outside
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node: ast.AST) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if is_ours(alias.name):
                self._imports.append(self._import(alias.name, None, node.lineno))
                first = alias.name.split(".")[0]
                self._bind(alias.asname or first, alias.name if alias.asname else first)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._absolute(node.level, node.module or "")
        if base is None or not is_ours(base):
            return
        for alias in node.names:
            bound = None if self._depth else alias.asname or alias.name
            self._imports.append(self._import(base, alias.name, node.lineno, bound))
            self._bind(alias.asname or alias.name, f"{base}.{alias.name}")

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a bare text is a docstring
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        text, line = node.value, node.lineno
        if _DOTTED.fullmatch(text):
            self._strings.append(Reference("string", text.replace(":", "."), line))
        elif _RELATIVE.fullmatch(text) and (near := self._neighbor(text)):
            self._relative.append(Reference("relative", near, line))
        for match in _STATEMENT.finditer(text):
            self._strings.append(Reference("string", match[1].rstrip("."), line))

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _IMPORTERS:
            self._calls_importer = True
            argument = node.args[0] if node.args else None
            if isinstance(argument, ast.JoinedStr | ast.BinOp) and _may_be_ours(argument):
                text = ast.unparse(argument)
                self._strings.append(Reference("computed", text, node.lineno))
            elif near := self._written_neighbor(argument):
                self._strings.append(Reference("string", near, node.lineno))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes, inner = "", cast(ast.expr, node)
        while isinstance(inner, ast.Attribute):
            attributes = f".{inner.attr}{attributes}"
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._chains.append((inner.id, attributes, node.lineno))
        else:
            self.visit(inner)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._rebound.add(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        self._rebound.add(node.arg)
        self.generic_visit(node)

    def _import(
        self, base: str, name: str | None, line: int, bound: str | None = None
    ) -> Reference:
        return Reference("import", base, line, name, self._typing_only, bound)

    def _bind(self, name: str, dotted: str) -> None:
        if not self._typing_only:
            self._aliases[name] = dotted

    def _absolute(self, level: int, module: str) -> str | None:
        """The module that an import statement names; None outside every package."""
        if level == 0:
            return module
        if self._package is None:
            return None
        parts = self._package.split(".")
        kept = parts[: len(parts) - level + 1]
        return ".".join([*kept, module] if module else kept)

    def _written_neighbor(self, argument: ast.expr | None) -> str | None:
        """The module that an importer is given as a relative text."""
        if isinstance(argument, ast.Constant) and str(argument.value).startswith("."):
            return self._neighbor(str(argument.value))
        return None

    def _neighbor(self, text: str) -> str | None:
        module = text.lstrip(".")
        return self._absolute(len(text) - len(module), module)


def is_ours(dotted: str) -> bool:
    """Whether a dotted name begins with the package or the engine of chapter 00."""
    return dotted.split(".")[0] in _ROOTS


def _may_be_ours(argument: ast.expr) -> bool:
    """Whether a composed name begins like one of ours, or with something unknown."""
    while isinstance(argument, ast.BinOp):
        argument = argument.left
    first = argument.values[0] if isinstance(argument, ast.JoinedStr) else argument
    if not isinstance(first, ast.Constant):
        return True
    return str(first.value).startswith((".", *_ROOTS))
