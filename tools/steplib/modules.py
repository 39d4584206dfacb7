"""Which modules a tree has, and which names each of them binds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from steplib.references import Reference, is_ours, is_type_checking, references
from steplib.tree import Tree

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Module:
    """One source: the names that it makes, at run time and for type checking, and its references.

    Names taken from the book's own modules are not among them; its references tell these.
    """

    names: frozenset[str]
    typing_names: frozenset[str]
    references: tuple[Reference, ...]


@cache
def read(path: str, text: str) -> Module:
    """Parse a source at this path of a tree; a path outside minisgl/ lies in no package.

    Raises SyntaxError.
    """
    tree = ast.parse(text)
    run_time: set[str] = set()
    typing_only: set[str] = set()
    for name, is_typing in _bindings(tree.body, False):
        (typing_only if is_typing else run_time).add(name)
    run_time |= _globals(tree) | _served(tree)
    return Module(
        frozenset(run_time), frozenset(typing_only), tuple(references(tree, _package(path)))
    )


def dotted(path: str) -> str:
    """`minisgl/core.py` -> `minisgl.core`; a package is named by its folder."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Index:
    """The modules of one tree. A file that does not parse offers nothing."""

    def __init__(self, tree: Tree) -> None:
        self._modules: dict[str, Module] = {}
        self._folders: set[str] = set()
        for path, file in tree.files.items():
            parents = PurePosixPath(path).parents
            self._folders |= {".".join(parent.parts) for parent in parents if parent.parts}
            if path.endswith(".py"):
                self._modules[dotted(path)] = _read_or_empty(path, file.text())

    def has_module(self, name: str) -> bool:
        """Whether `name` can be imported as a module or a package."""
        return name in self._modules or name in self._folders

    def has_name(self, module: str, name: str, typing_only: bool = False) -> bool:
        """Whether `from module import name` works (for type checking, if `typing_only`)."""
        return name == "*" or self._binds(module, name, typing_only, frozenset())

    def has_dotted(self, target: str) -> bool:
        """Whether the longest module in `target` exists and binds what follows it."""
        parts = target.split(".")
        for count in range(len(parts), 0, -1):
            module = ".".join(parts[:count])
            if self.has_module(module):
                return count == len(parts) or self.has_name(module, parts[count])
        return False

    def _binds(
        self, module: str, name: str, typing_only: bool, seen: frozenset[tuple[str, str]]
    ) -> bool:
        if self.has_module(f"{module}.{name}"):
            return True
        here = self._modules.get(module)
        if here is None or (module, name) in seen:
            return False
        if name in here.names or (name.startswith("__") and name.endswith("__")):
            return True
        if typing_only and name in here.typing_names:
            return True
        taken = [
            (ref.target, name if ref.name == "*" else str(ref.name))
            for ref in here.references
            if ref.bound in (name, "*") and (typing_only or not ref.typing_only)
        ]
        seen |= {(module, name)}
        return any(self._binds(origin, told, typing_only, seen) for origin, told in taken)


def _read_or_empty(path: str, text: str) -> Module:
    try:
        return read(path, text)
    except SyntaxError:
        return Module(frozenset(), frozenset(), ())


def _package(path: str) -> str | None:
    parts = PurePosixPath(path).parts
    return ".".join(parts[:-1]) if parts[0] == "minisgl" and len(parts) > 1 else None


def _bindings(body: Iterable[ast.AST], typing_only: bool) -> Iterator[tuple[str, bool]]:
    """(name, only for type checking) of all that module-level statements bind."""
    for node in body:
        if isinstance(node, ast.If) and is_type_checking(node.test):
            yield from _bindings(node.body, True)
            yield from _bindings(node.orelse, typing_only)
            continue
        for name in _bound(node):
            yield name, typing_only
        if not isinstance(node, _SCOPES + _COMPREHENSIONS):
            yield from _bindings(ast.iter_child_nodes(node), typing_only)


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not (node.level or is_ours(node.module or "")):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return []


def _globals(tree: ast.Module) -> set[str]:
    """Names that functions bind at module level by `global`."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Global))
    return {name for node in nodes for name in node.names}


def _served(tree: ast.Module) -> set[str]:
    """The texts in a module-level `__getattr__`: the names that it makes on demand."""
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {
        node.value
        for function in functions
        if function.name == "__getattr__"
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
