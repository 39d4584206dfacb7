"""One thing that is wrong, from either tier, and what is told of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steplib import minechecks, symbols
from steplib.context import test_files
from steplib.facts import Finding, Result
from steplib.report import finding_lines
from steplib.symbols import Definition

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

_TEST = re.compile(r"(?P<file>tests/test_\w+\.py)::(?P<name>\w+)")
_PLACE = re.compile(r"\((?P<path>\S+\.py):(?P<line>\d+)\)")
_STUB = re.compile(r"chapter \d\d, \S+\.py: write [\w.]+")


@dataclass(frozen=True)
class Failure:
    """check: the check in words. read: the place in the page."""

    check: str
    finding: Finding
    read: str

    @property
    def test(self) -> str | None:
        """The pair that failed, as `tests/test_ch09_x.py::name`."""
        found = _TEST.match(self.finding.message)
        return f"{found['file']}::{found['name']}" if found else None

    def lines(self) -> Iterator[str]:
        """What a reader sees of it."""
        yield f"FAILED  {self.check}"
        yield from finding_lines(self.finding)
        yield f"  read      {self.read}"


def of_result(book: Book, chapter: Chapter, says: str, result: Result) -> list[Failure]:
    """Each finding of a check, with its own place in the page."""
    page = f"docs/chapters/{chapter.name}.md"
    return [
        Failure(says, finding, _place(book, chapter, finding) or page)
        for finding in result.findings
    ]


def _place(book: Book, chapter: Chapter, finding: Finding) -> str:
    """Of a file that is named, else of the one file that the test is about."""
    if place := minechecks.place_of(book, chapter, [finding]):
        return place
    paths = {name.partition("::")[0] for name in _spoken_of(book, chapter, finding)}
    return minechecks.place_of(book, chapter, [Finding(paths.pop())]) if len(paths) == 1 else ""


def of_report(book: Book, data: dict[str, Any]) -> list[Failure]:
    """The failures in the JSON that `check --json` writes, in its order."""
    found: list[Failure] = []
    for entry in data["chapters"]:
        chapter = book.chapter(entry["number"])
        for check in entry["checks"]:
            findings = [Finding(**finding) for finding in check["findings"]]
            if check["verdict"] != "passed":
                result = Result(check["check"], check["verdict"], findings=findings)
                found += of_result(book, chapter, check["check"], result)
    return found


def subjects(book: Book, chapter: Chapter, failure: Failure) -> list[str]:
    """What to ask for a hint, the closest first.

    A stub's error; the function that raised; the symbol that the test is named for; a file.
    """
    finding = failure.finding
    told = f"{finding.where} {finding.message}"
    if stub := _STUB.search(told):
        return [stub[0]]
    raised = _raised_in(book, chapter, finding)
    spoken = _spoken_of(book, chapter, finding)
    test = _TEST.match(finding.message)
    fitting = [name for name in spoken if test and _last(name).lower() in test["name"]]
    certain = fitting or (spoken if len(spoken) == 1 else [])
    return [*raised, *certain, *(path for path in _written(chapter) if path in told)]


def _written(chapter: Chapter) -> list[str]:
    return [*chapter.manifest.creates, *chapter.manifest.modifies]


def _raised_in(book: Book, chapter: Chapter, finding: Finding) -> list[str]:
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


def _spoken_of(book: Book, chapter: Chapter, finding: Finding) -> list[str]:
    """The functions and classes of the chapter that the failed probe names, as `path::name`."""
    test = _TEST.match(finding.message)
    source = next((f for f in test_files(book, chapter) if test and f.name in test["file"]), None)
    if test is None or source is None:
        return []
    module = ast.parse(source.read_text(encoding="utf-8"))
    probe = next(
        (n for n in module.body if getattr(n, "name", "") == f"probe_{test['name']}"), None
    )
    nodes = list(ast.walk(probe)) if probe else []
    spoken = {n.id for n in nodes if isinstance(n, ast.Name)}
    spoken |= {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    files = book.reference(chapter.number).files
    return [
        f"{path}::{name}"
        for path in _written(chapter)
        if path.endswith(".py")
        for name, symbol in symbols.symbols(files[path].text()).items()
        if _last(name) in spoken and isinstance(symbol.node, Definition)
    ]


def _last(name: str) -> str:
    return re.split(r"[.:]", name)[-1]
