"""What is proved of a reader's files: the reference's checks, but for what is the book's alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from steplib.checks import CHECKS, Check
from steplib.context import Context
from steplib.facts import Result, failed
from steplib.mine import MyBook
from steplib.reading.place import place_of

if TYPE_CHECKING:
    from steplib.book import Chapter
    from steplib.check import ChecksOf

_ORDER = ("references", "main", "parity", "tests", "types")
"""Types last: what a body that isn't written yet would set, no other file can use."""

Prove = Callable[[Context, "Chapter", dict[str, Result]], Result]


def checks_of(book: MyBook, shown: str) -> ChecksOf:
    """All checks for the folder's newest chapter; for an earlier one its tests.

    shown: the folder as it was given, for the next command.
    """
    command = f"check {{}} --mine {shown}"
    files = Check("files", "your files", _files, command)
    table = {check.name: _mine(check, command) for check in CHECKS}
    own = (files, *(table[name] for name in _ORDER))
    tests = tuple(check for check in own if check.name == "tests")
    return lambda chapter: own if chapter.number == book.number else tests


def _mine(check: Check, command: str) -> Check:
    return replace(check, prove=_pointing(check.prove), command=command)


def _pointing(prove: Prove) -> Prove:
    """The same check, with the place in the page, and no command that runs the reference."""

    def proved(context: Context, chapter: Chapter, so_far: dict[str, Result]) -> Result:
        result = prove(context, chapter, so_far)
        result.next_command = ""
        if result.findings:
            result.read = place_of(context.book, chapter, result.check, result.findings[0])
        return result

    return proved


def _files(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """Every file is there and is Python, and none is too many."""
    book = context.book
    assert isinstance(book, MyBook)
    if book.faults:
        place = place_of(book, chapter, "files", book.faults[0])
        return failed("files", *book.faults, read=place)
    return Result("files", summary=f"{len(book.mine)} files")
