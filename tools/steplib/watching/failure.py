"""One thing that is wrong, from either tier, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steplib.facts import Finding, Result
from steplib.reading import about
from steplib.reading.place import place_of
from steplib.report import finding_lines

if TYPE_CHECKING:
    from steplib.book import Book, Chapter


@dataclass(frozen=True)
class Failure:
    """check: the check in words. read: the place in the page."""

    check: str
    finding: Finding
    read: str

    @property
    def test(self) -> str | None:
        """The pair that failed, as `tests/test_ch09_x.py::name`."""
        found = about.test_of(self.finding)
        return "::".join(found) if found else None

    def lines(self) -> Iterator[str]:
        """What a reader sees of it."""
        yield f"FAILED  {self.check}"
        yield from finding_lines(self.finding)
        yield f"  read      {self.read}"


def of_result(book: Book, chapter: Chapter, says: str, result: Result) -> list[Failure]:
    """Each finding of a check, with its own place in the page."""
    page = f"docs/chapters/{chapter.name}.md"
    return [
        Failure(says, finding, place_of(book, chapter, result.check, finding) or page)
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


def subjects(book: Book, chapter: Chapter, failure: Failure) -> list[str]:
    """What to ask for a hint, the closest first.

    A stub's error; the function that raised; the symbol that the test is named for; a file.
    """
    finding = failure.finding
    if stub := about.stub_in(finding):
        return [stub]
    named = [path for path in about.written(chapter) if path in about.told(finding)]
    return [*about.closest(book, chapter, finding), *named]
