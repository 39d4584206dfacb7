"""What a finding is about: a body that isn't written, a function that raised, a test's subjects."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from steplib import symbols
from steplib.context import test_files
from steplib.facts import Finding
from steplib.symbols import Definition

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

_TEST = re.compile(r"(?P<file>tests/test_\w+\.py)::(?P<name>\w+)")
_PLACE = re.compile(r"\((?P<path>\S+\.py):(?P<line>\d+)\)")
_STUB = re.compile(r"chapter \d\d, (?P<path>\S+\.py): write (?P<name>[\w.]+)")


def told(finding: Finding) -> str:
    """All that a finding says of its place."""
    return f"{finding.where} {finding.message}"


def test_of(finding: Finding) -> tuple[str, str] | None:
    """File and name of the pair that failed."""
    found = _TEST.match(finding.message)
    return (found["file"], found["name"]) if found else None


def stub_in(finding: Finding) -> str:
    """What the error of an unwritten body says; empty without one."""
    found = _STUB.search(told(finding))
    return found[0] if found else ""


def written(chapter: Chapter) -> list[str]:
    """The files that the chapter's reader writes."""
    return [*chapter.manifest.creates, *chapter.manifest.modifies]


def closest(book: Book, chapter: Chapter, finding: Finding) -> list[str]:
    """The symbols that are certain, as `path::name`.

    The stub's own; else the function that raised, and those that the failed test is named for.
    """
    if stub := _STUB.search(told(finding)):
        return [f"{stub['path']}::{stub['name']}"]
    spoken, test = spoken_of(book, chapter, finding), test_of(finding)
    fitting = [name for name in spoken if test and last(name).lower() in test[1]]
    certain = fitting or (spoken if len(spoken) == 1 else [])
    return [*raised_in(book, chapter, finding), *certain]


def raised_in(book: Book, chapter: Chapter, finding: Finding) -> list[str]:
    """The function around the line that an exception came from, as `path::name`."""
    place = _PLACE.search(finding.message)
    file = book.tree(chapter.number).files.get(place["path"]) if place else None
    if place is None or file is None:
        return []
    line = int(place["line"])
    try:
        known = symbols.symbols(file.text())
    except SyntaxError:  # saved since
        return []
    around = [symbol for symbol in known.values() if symbol.first <= line <= symbol.last]
    return [f"{place['path']}::{max(around, key=lambda s: s.first).name}"] if around else []


def spoken_of(book: Book, chapter: Chapter, finding: Finding) -> list[str]:
    """The functions and classes of the chapter that the failed probe names, as `path::name`.

    A name alone is no method: it may be a variable of the test.
    """
    nodes = [node for part in _probe(book, chapter, finding) for node in ast.walk(part)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    files = book.reference(chapter.number).files
    return [
        f"{path}::{name}"
        for path in written(chapter)
        if path.endswith(".py")
        for name, symbol in symbols.symbols(files[path].text()).items()
        if last(name) in (attributes if "." in name else names | attributes)
        and isinstance(symbol.node, Definition)
    ]


def _probe(book: Book, chapter: Chapter, finding: Finding) -> list[ast.stmt]:
    """The failed probe and the helpers in its file that it calls."""
    test = test_of(finding)
    source = next((f for f in test_files(book, chapter) if test and f.name in test[0]), None)
    if test is None or source is None:
        return []
    body = ast.parse(source.read_text(encoding="utf-8")).body
    known = {node.name: node for node in body if isinstance(node, Definition)}
    found: dict[str, ast.stmt] = {}
    pending = {f"probe_{test[1]}"} & known.keys()
    while pending:
        name = pending.pop()
        found[name] = known[name]
        inner = {node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)}
        pending |= (inner & known.keys()) - found.keys()
    return list(found.values())


def last(name: str) -> str:
    """The symbol's own name, without path and class."""
    return re.split(r"[.:]", name)[-1]
