"""A tree's interface held against upstream's, symbol by symbol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steplib import catalogue
from steplib.interface import Class, Function, Interface, Parameter, from_source

if TYPE_CHECKING:
    from steplib.book import Tree
    from steplib.catalogue import Catalogue

_NOT_INTERFACE = {"logger", "__repr__", "__str__", "__post_init__", "__new__"}


@dataclass(frozen=True)
class Deviation:
    """One place where a tree is not as the catalogue says."""

    symbol: str
    message: str
    kind: Literal["changed", "missing", "added"] = "changed"


def deviations(tree: Tree, upstream: Catalogue | None = None) -> list[Deviation]:
    """Every place where the tree's modules differ from upstream's, in order of path.

    upstream: another state of it than the pinned one.
    """
    upstream = upstream or catalogue.load()
    sources = {path: file.text() for path, file in tree.files.items() if path.endswith(".py")}
    ours = {path: from_source(text) for path, text in sources.items()}
    classes = {name: cls for module in ours.values() for name, cls in module.classes.items()}
    found: list[Deviation] = []
    for path, module in ours.items():
        if path in upstream.interfaces:
            found += _Comparison(classes).module(path, module, upstream.interfaces[path])
        elif path.startswith("minisgl/") and module.names:  # not an empty package
            found.append(Deviation(path, "upstream has no such file", "added"))
    return found


def symbols(tree: Tree) -> set[str]:
    """All that the tree's modules define, as `path`, `path::name` and `path::Class.member`."""
    found = set(tree.files)
    for path, file in tree.files.items():
        if path.endswith(".py"):
            module = from_source(file.text())
            found |= {f"{path}::{name}" for name in module.names - module.imported}
            for name, cls in module.classes.items():
                members = [*cls.methods, *(field.name for field in cls.fields)]
                found |= {f"{path}::{name}.{member}" for member in members}
    return found


class _Comparison:
    """Compares definitions; `classes` are all of the tree by name, to find what is inherited."""

    def __init__(self, classes: dict[str, Class]) -> None:
        self._classes = classes

    def module(self, path: str, ours: Interface, theirs: Interface) -> Iterator[Deviation]:
        for name, function in theirs.functions.items():
            if name in ours.functions:
                yield from _function(f"{path}::{name}", ours.functions[name], function)
        for name, cls in theirs.classes.items():
            if name in ours.classes:
                yield from self._class(f"{path}::{name}", ours.classes[name], cls)
        missing = [name for name in theirs.names - ours.names if _is_public(name)]
        for name in sorted(missing):
            if len(name) > 1:  # T and the like are type variables
                yield Deviation(f"{path}::{name}", "it is missing", "missing")
        for name in theirs.exports or ():
            if name not in (ours.exports or ours.names) and name not in missing:
                yield Deviation(f"{path}::{name}", "__all__ does not list it", "missing")
        for name in [*ours.functions, *ours.classes]:
            if name not in theirs.names and _is_public(name):
                yield Deviation(f"{path}::{name}", "upstream has no such name here", "added")

    def _class(self, symbol: str, ours: Class, theirs: Class) -> Iterator[Deviation]:
        for base in theirs.bases:
            if base not in ours.bases and _is_public(base):
                yield Deviation(symbol, f"it does not extend {base}")
        methods = self._inherited(ours) | ours.methods
        for name, method in theirs.methods.items():
            if name in methods:
                yield from _function(f"{symbol}.{name}", methods[name], method)
            elif _is_public(name):
                yield Deviation(f"{symbol}.{name}", "this method is missing", "missing")
        known = {*theirs.methods, *self._inherited(ours)}
        for name in ours.methods:
            if name not in known and _is_public(name):
                yield Deviation(f"{symbol}.{name}", "upstream has no such method", "added")
        yield from _fields(symbol, _public(ours.fields), _public(theirs.fields))

    def _inherited(self, cls: Class) -> dict[str, Function]:
        """The methods of the tree's classes that `cls` extends; the first base wins."""
        found: dict[str, Function] = {}
        for base in reversed(cls.bases):
            if base in self._classes and self._classes[base] is not cls:
                found |= self._inherited(self._classes[base]) | self._classes[base].methods
        return found


def _fields(
    symbol: str, ours: Sequence[Parameter], theirs: Sequence[Parameter]
) -> Iterator[Deviation]:
    names = [field.name for field in theirs]
    for field in ours:
        if field.name not in names:
            yield Deviation(f"{symbol}.{field.name}", "upstream has no such field", "added")
    kept = [field for field in ours if field.name in names]
    present = {field.name: field for field in ours}
    for field in theirs:
        if field.name not in present:
            yield Deviation(f"{symbol}.{field.name}", "this field is missing", "missing")
        elif present[field.name].default != field.default:
            message = f"its default is {_default(present[field.name])}, not {_default(field)}"
            yield Deviation(f"{symbol}.{field.name}", message)
    if [field.name for field in kept] != [name for name in names if name in present]:
        yield Deviation(symbol, "its fields stand in another order")
    elif any(a.name in names for a in ours[len(kept) :]):
        yield Deviation(symbol, "fields of ours stand between upstream's; they come last")


def _function(symbol: str, ours: Function, theirs: Function) -> Iterator[Deviation]:
    if (ours.binding, ours.is_async) != (theirs.binding, theirs.is_async):
        yield Deviation(symbol, f"it is {_nature(ours)}, not {_nature(theirs)}")
    count = len(theirs.positional)
    names = [parameter.name for parameter in theirs.positional]
    if [parameter.name for parameter in ours.positional[:count]] != names:
        told = ", ".join(parameter.name for parameter in ours.positional)
        yield Deviation(symbol, f"its parameters are ({told}), not ({', '.join(names)})")
        return
    pairs = list(zip(ours.positional, theirs.positional, strict=False))
    keywords = {parameter.name: parameter for parameter in ours.keyword_only}
    for parameter in theirs.keyword_only:
        if parameter.name not in keywords:
            yield Deviation(symbol, f"it lacks the keyword {parameter.name}")
        else:
            pairs.append((keywords.pop(parameter.name), parameter))
    for mine, other in pairs:
        if mine.default != other.default:
            message = f"the default of {mine.name} is {_default(mine)}, not {_default(other)}"
            yield Deviation(symbol, message)
    for extra in [*ours.positional[count:], *keywords.values()]:
        if extra.default is None:
            yield Deviation(symbol, f"{extra.name} is ours and has no default")
    if (theirs.star, theirs.double_star) != (ours.star, ours.double_star):
        yield Deviation(symbol, "its *args and **kwargs are not the same")


def _public(fields: Sequence[Parameter]) -> list[Parameter]:
    return [field for field in fields if _is_public(field.name)]


def _default(parameter: Parameter) -> str:
    return "missing" if parameter.default is None else parameter.default


def _nature(function: Function) -> str:
    article = "an async" if function.is_async else "a"
    return f"{article} {function.binding or 'function'}"


def _is_public(name: str) -> bool:
    is_dunder = name.startswith("__") and name.endswith("__")
    return name not in _NOT_INTERFACE and (is_dunder or not name.startswith("_"))
