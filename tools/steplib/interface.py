"""What a module offers to others: classes, fields, functions, parameters, constants, exports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_BINDINGS = {"property", "classmethod", "staticmethod", "cached_property"}


@dataclass(frozen=True)
class Parameter:
    """One parameter; `default` is its source text in a normal form, None without one."""

    name: str
    default: str | None = None


@dataclass(frozen=True)
class Function:
    """A function or method; `binding` is "property", "classmethod", "staticmethod" or ""."""

    positional: tuple[Parameter, ...] = ()
    keyword_only: tuple[Parameter, ...] = ()
    star: str | None = None
    double_star: str | None = None
    binding: str = ""
    is_async: bool = False


@dataclass(frozen=True)
class Class:
    """A class: the names of its bases, its annotated fields in order, its own methods."""

    bases: tuple[str, ...] = ()
    fields: tuple[Parameter, ...] = ()
    methods: dict[str, Function] = field(default_factory=dict)


@dataclass(frozen=True)
class Interface:
    """A module's definitions by name; `exports` is its __all__, None without one."""

    classes: dict[str, Class]
    functions: dict[str, Function]
    constants: frozenset[str]
    exports: tuple[str, ...] | None
    imported: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Everything that the module defines or takes in."""
        return self.constants | self.imported | {*self.classes, *self.functions}


def from_source(text: str) -> Interface:
    """The interface of a Python source."""
    classes: dict[str, Class] = {}
    functions: dict[str, Function] = {}
    constants: set[str] = set()
    imported: set[str] = set()
    tree = ast.parse(text)
    for node in _statements(tree.body):
        if isinstance(node, ast.ClassDef):
            classes[node.name] = _class(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[node.name] = _function(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {alias.asname or alias.name for alias in node.names}
        else:
            constants |= set(_assigned(node))
    return Interface(classes, functions, frozenset(constants), _exports(tree), frozenset(imported))


def from_facts(facts: dict[str, Any]) -> Interface:
    """The interface of one file of data/interface.json."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for symbol in facts["symbols"]:
        kinds.setdefault(symbol["kind"], []).append(symbol)
    classes = {symbol["name"]: _class_from_facts(symbol) for symbol in kinds.get("class", [])}
    functions = {
        symbol["name"]: _function_from_facts(symbol)
        for symbol in kinds.get("function", [])
        if "signature" in symbol  # not those of C++ sources
    }
    constants = frozenset(symbol["name"] for symbol in kinds.get("constant", []))
    exports = facts["exports"]
    return Interface(classes, functions, constants, tuple(exports) if exports else None)


def normal(default: str | None) -> str | None:
    """A default's text in one form: quotes as Python prints them, keywords sorted."""
    return None if default is None else _text(ast.parse(default, mode="eval").body)


def _class_from_facts(symbol: dict[str, Any]) -> Class:
    fields = tuple(Parameter(f["name"], normal(f["default"])) for f in symbol["fields"])
    methods = {method["name"]: _function_from_facts(method) for method in symbol["methods"]}
    return Class(tuple(_base_name(ast.parse(b).body[0]) for b in symbol["bases"]), fields, methods)


def _function_from_facts(symbol: dict[str, Any]) -> Function:
    lines = [f"@{decorator}" for decorator in symbol["decorators"]]
    start = "async def" if symbol["async"] else "def"
    lines.append(f"{start} f{symbol['signature']}: ...")
    node = ast.parse("\n".join(lines)).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return _function(node)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Module-level statements, those under `if` and `try` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handlers = [inner for handler in node.handlers for inner in handler.body]
            yield from _statements([*node.body, *handlers, *node.orelse])


def _class(node: ast.ClassDef) -> Class:
    fields = tuple(
        Parameter(item.target.id, _text(item.value))
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    )
    methods = {
        item.name: _function(item)
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return Class(tuple(_base_name(base) for base in node.bases), fields, methods)


def _base_name(node: ast.AST) -> str:
    """The last name of a base class, without what it is subscripted by."""
    if isinstance(node, ast.Expr | ast.Subscript):
        return _base_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    arguments = node.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(names) - len(arguments.defaults)) + [*arguments.defaults]
    decorators = {_base_name(decorator) for decorator in node.decorator_list}
    binding = (_BINDINGS & decorators or {""}).pop()
    return Function(
        tuple(Parameter(a.arg, _text(d)) for a, d in zip(names, defaults, strict=True)),
        tuple(
            Parameter(a.arg, _text(d))
            for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ),
        arguments.vararg.arg if arguments.vararg else None,
        arguments.kwarg.arg if arguments.kwarg else None,
        "property" if binding == "cached_property" else binding,
        isinstance(node, ast.AsyncFunctionDef),
    )


def _text(node: ast.expr | None) -> str | None:
    if node is None:
        return None
    if isinstance(node, ast.Call):
        node.keywords.sort(key=lambda keyword: keyword.arg or "")
    return ast.unparse(node)


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        targets = node.targets
    else:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _exports(tree: ast.Module) -> tuple[str, ...] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in _assigned(node):
            value = ast.literal_eval(node.value) if node.value else ()
            return tuple(value)
    return None
