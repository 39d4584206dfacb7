"""Where a chapter's page treats what went wrong: a section, or the contract of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steplib.reading import about, nearest, sections

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.facts import Finding

_RUNS = ("main", "parity", "tests")


def place_of(book: Book, chapter: Chapter, check: str, finding: Finding) -> str:
    """The line of the chapter's page to read, and its section; empty where nothing is sure.

    For what ran: the section that treats what the failure is about. Else, and where there is none,
    the contract of the file that is named or that the test is about; for main and parity what
    main prints.
    """
    page = Path("docs", "chapters", f"{chapter.name}.md")
    try:
        text = (book.root / page).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    place = _section(book, chapter, text, finding) if check in _RUNS else ""
    place = place or _contract(text, _paths(book, chapter, finding))
    if not place and check in ("main", "parity"):
        place = _main(text)
    return f"{page.as_posix()}, {place}" if place else ""


def _section(book: Book, chapter: Chapter, text: str, finding: Finding) -> str:
    certain, page = about.closest(book, chapter, finding), sections.sections(text)
    if about.stub_in(finding):
        found = nearest.closest(page, certain, [], about.last(certain[0]))
    else:
        spoken = about.spoken_of(book, chapter, finding)
        file, name = about.test_of(finding) or ("", "")
        found = nearest.closest(page, certain, spoken, f"{Path(file).stem} {name}")
    return _shown(found) if found else ""


def _shown(section: sections.Section) -> str:
    return f'line {section.line}: "{section.title}"'


def _paths(book: Book, chapter: Chapter, finding: Finding) -> list[str]:
    """The files that are named; else the one file that the failed test is about."""
    named = [path for path in about.written(chapter) if path in about.told(finding)]
    spoken = {name.partition("::")[0] for name in about.spoken_of(book, chapter, finding)}
    return named or (sorted(spoken) if len(spoken) == 1 else [])


def _contract(text: str, paths: list[str]) -> str:
    """The first contract on the page of one of these files."""
    for number, row in enumerate(text.split("\n"), 1):
        if any(f'title="{path}' in row for path in paths):
            return f"line {number}"
    return ""


def _main(text: str) -> str:
    named = [s for s in sections.sections(text) if s.title == sections.MAIN]
    return _shown(named[0]) if named else ""
