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

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

_TEST = re.compile(r"(?P<file>tests/test_\w+\.py)::(?P<name>\w+)")
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
        Failure(says, finding, minechecks.place_of(book, chapter, [finding]) or page)
        for finding in result.findings
    ]


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


def subject(book: Book, chapter: Chapter, failure: Failure) -> str:
    """What to ask for a hint: a stub's error, a file that is named, or what the test speaks of."""
    told = f"{failure.finding.where} {failure.finding.message}"
    if stub := _STUB.search(told):
        return stub[0]
    written = [*chapter.manifest.creates, *chapter.manifest.modifies]
    named = [path for path in written if path in told]
    if named or failure.test is None:
        return (named or written)[0]
    file, _, name = failure.test.partition("::")
    return _most_spoken_of(book, chapter, file, name) or written[0]


def _most_spoken_of(book: Book, chapter: Chapter, file: str, name: str) -> str | None:
    """The chapter's symbol, as `path::name`, that the probe imports; the last one that it names."""
    source = next((f for f in test_files(book, chapter) if f.name in file), None)
    if source is None:
        return None
    module = ast.parse(source.read_text(encoding="utf-8"))
    probe = next((n for n in module.body if getattr(n, "name", "") == f"probe_{name}"), module)
    spoken = {n.id for n in ast.walk(probe) if isinstance(n, ast.Name)}
    spoken |= {n.attr for n in ast.walk(probe) if isinstance(n, ast.Attribute)}
    files = book.reference(chapter.number).files
    known = [
        f"{path}::{symbol}"
        for path in (*chapter.manifest.creates, *chapter.manifest.modifies)
        if path.endswith(".py")
        for symbol in symbols.symbols(files[path].text())
        if symbol.rpartition(".")[2] in spoken
    ]
    return known[-1] if known else None
