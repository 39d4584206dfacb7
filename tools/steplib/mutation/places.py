"""The nodes of a file that say what it does. What only words or types depend on is left out.

Left out: docstrings, annotations, decorators, `__all__`, what stands under TYPE_CHECKING, log
calls, the wording of errors, f-strings, abstract methods, and those that only show an object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from steplib.bodies import is_interface

_SHOWN = {"__repr__", "__str__", "__rich__"}
_LOGGED = {"debug", "info", "warning", "error", "exception", "critical", "log", "info_rank0"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


@dataclass(frozen=True)
class Place:
    """A node, the nodes around it (the nearest last), and the function or class it stands in."""

    node: ast.AST
    parents: tuple[ast.AST, ...]
    symbol: str

    @property
    def parent(self) -> ast.AST:
        return self.parents[-1]


def places(tree: ast.Module) -> Iterator[Place]:
    """Every node that may be changed, in order of the text."""
    for node in tree.body:
        yield from _below(Place(node, (tree,), ""))


def _below(place: Place) -> Iterator[Place]:
    node, symbol = place.node, place.symbol
    if _is_left_out(node):
        return
    yield place
    if isinstance(node, _Definition):
        symbol = f"{symbol}.{node.name}".lstrip(".")
    for child in _children(node):
        yield from _below(Place(child, (*place.parents, node), symbol))


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(name=name):
            return name in _SHOWN or is_interface(node)
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return _is_log(function)
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
    return False


def _is_log(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute):
        return False
    return function.attr in _LOGGED and "log" in ast.unparse(function.value).lower()


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes right below that may change what the code does."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.Lambda():
            return [*node.args.defaults, *filter(None, node.args.kw_defaults), node.body]
        case ast.ClassDef():
            return node.body
        case ast.AnnAssign():
            return [node.target, *([node.value] if node.value else [])]
        case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test):
            return node.orelse
        case ast.Assert():
            return [node.test]
        case ast.Raise(exc=ast.Call() as call):
            return [value for value in _arguments(call) if not is_wording(value)]
    return ast.iter_child_nodes(node)


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def is_wording(node: ast.expr) -> bool:
    """Whether this is a text, or put together from texts."""
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=left, right=right):
            return is_wording(left) or is_wording(right)
        case ast.IfExp(body=body, orelse=other):
            return is_wording(body) or is_wording(other)
        case ast.Call(func=ast.Attribute(value=value)):
            return is_wording(value)
    return False
