"""Where a reader stands: for each chapter of the book so far, whether its pass still holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steplib.passes import Pass, Passes
from steplib.paths import sha256
from steplib.workfolder import WorkFolder

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

State = Literal["passed", "changed", "given", "open"]


@dataclass(frozen=True)
class Standing:
    """One chapter. changed: the files that stand otherwise than when it passed.

    given: no pass, but a chapter before the folder's own whose files are the book's.
    tests_only: the pass was one of its tests alone, in a folder that was at a later chapter.
    """

    chapter: Chapter
    state: State
    at: str = ""
    changed: tuple[str, ...] = ()
    tests_only: bool = False

    @property
    def is_broken(self) -> bool:
        return self.state in ("changed", "open")

    @property
    def said(self) -> str:
        """The state in words."""
        what = "its tests passed" if self.tests_only else "passed"
        if self.state == "changed":
            return f"{what} before, changed since: {', '.join(self.changed)}"
        rest = "; main and parity were not run" if self.tests_only else ""
        day = self.at.partition("T")[0]
        words = {"passed": f"{what} on {day}{rest}", "given": "as the book has it"}
        return words.get(self.state, "not passed yet")


def standings(book: Book, folder: WorkFolder) -> list[Standing]:
    """The book's chapters up to the folder's own, from its list alone: other files don't count."""
    assert folder.chapter is not None
    passes = Passes.load(folder)
    so_far = [chapter for chapter in book.chapters if chapter.number <= folder.chapter]
    return [_standing(book, folder, passes, chapter) for chapter in so_far]


def first_broken(found: list[Standing]) -> Standing | None:
    """The first chapter that has to be passed, or passed again."""
    return next((standing for standing in found if standing.is_broken), None)


def lines(found: list[Standing], shown: str) -> Iterator[str]:
    """One line a chapter, then the first that is broken. shown: the folder as it was given."""
    for standing in found:
        yield f"  {standing.chapter.name:<26} {standing.said}"
    count = sum(not standing.is_broken for standing in found)
    yield f"{count} of {len(found)} chapters stand"
    first = first_broken(found)
    if first is not None:
        yield f"first to mend: chapter {first.chapter.name}"
        yield f"read  docs/chapters/{first.chapter.name}.md"
        yield f"next  python tools/steps.py check {first.chapter.number:02d} --mine {shown}"


def _standing(book: Book, folder: WorkFolder, passes: Passes, chapter: Chapter) -> Standing:
    handed_on = _handed_on(book, folder, chapter)
    found = [
        _of_pass(book, folder, chapter, handed_on, entry, is_tests)
        for is_tests, entries in ((False, passes.passed), (True, passes.tested))
        if (entry := entries.get(chapter.number)) is not None and _made(chapter) <= set(entry.files)
    ]  # else nothing says what has passed
    if found:
        return min(found, key=lambda it: it.state == "changed")  # a whole pass before one of tests
    files, own = book.reference(chapter.number).files, _made(chapter) - handed_on
    is_given = all(_sha256(folder, path) == files[path].sha256 for path in own)
    is_earlier = chapter.number != folder.chapter
    return Standing(chapter, "given" if is_given and is_earlier else "open")


def _of_pass(
    book: Book, folder: WorkFolder, chapter: Chapter, handed_on: set[str], entry: Pass,
    tests_only: bool,
) -> Standing:  # fmt: skip
    """What is left of a pass: whether the files are as they were then."""
    files = book.reference(chapter.number).files
    wanted = {path: entry.files[path] for path in files if path in entry.files}
    wanted = {path: sha for path, sha in wanted.items() if path not in handed_on}
    changed = tuple(path for path, sha in wanted.items() if _sha256(folder, path) != sha)
    return Standing(chapter, "changed" if changed else "passed", entry.at, changed, tests_only)


def _made(chapter: Chapter) -> set[str]:
    return {*chapter.manifest.creates, *chapter.manifest.modifies}


def _handed_on(book: Book, folder: WorkFolder, chapter: Chapter) -> set[str]:
    """The files that a later chapter of the folder asks to change: a pass of that one tells."""
    assert folder.chapter is not None
    later = [c for c in book.chapters if chapter.number < c.number <= folder.chapter]
    return {path for c in later for path in (*c.manifest.creates, *c.manifest.modifies)}


def _sha256(folder: WorkFolder, path: str) -> str | None:
    data = folder.read(path)
    return None if data is None else sha256(data)
