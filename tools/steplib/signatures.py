"""What signatures say beyond their text: attributes that `__init__` sets, names in annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from steplib.symbols import bound_names, is_public

Function = ast.FunctionDef | ast.AsyncFunctionDef


def attributes(node: Function) -> Iterator[str]:
    """`self.name = ...` for each public attribute that the function sets."""
    seen: set[str] = set()
    for inner in ast.walk(node):
        for target, annotation in _targets(inner):
            if not _is_own(target) or target.attr in seen or not is_public(target.attr):
                continue
            seen.add(target.attr)
            kind = f": {ast.unparse(annotation)}" if annotation else ""
            yield f"self.{target.attr}{kind} = ..."


def spoken_of(body: list[ast.stmt]) -> Iterator[str]:
    """Names in the annotations of public functions and fields, inside public classes too."""
    for node in body:
        if not any(is_public(name) for name in bound_names(node)):
            continue
        if isinstance(node, ast.ClassDef):
            yield from spoken_of(node.body)
        for annotation in _annotations(node):
            yield from (x.id for x in ast.walk(annotation) if isinstance(x, ast.Name))


def _annotations(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if not isinstance(node, Function):
        return []
    taken = node.args
    arguments = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    found = [argument.annotation for argument in arguments if argument]
    return [annotation for annotation in [*found, node.returns] if annotation]


def _targets(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr | None]]:
    targets: list[ast.expr] = []
    annotation = None
    if isinstance(node, ast.Assign):
        targets = [leaf for target in node.targets for leaf in _leaves(target)]
    elif isinstance(node, ast.AnnAssign):
        targets, annotation = [node.target], node.annotation
    for target in targets:
        if isinstance(target, ast.Attribute):
            yield target, annotation


def _leaves(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"
