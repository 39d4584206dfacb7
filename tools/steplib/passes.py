"""Which chapters a working folder has passed, kept in it by content hash."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib.paths import write_atomically
from steplib.workfolder import WorkFolder

if TYPE_CHECKING:
    from steplib.book import Chapter
    from steplib.facts import Report
    from steplib.mine import MyBook

NAME = ".handbook-passed.json"
_TESTS = " tests"  # what the key of a chapter ends with whose tests alone have passed


@dataclass(frozen=True)
class Pass:
    """at: when, as ISO 8601. files: the sha256 of each file that was checked, by path."""

    at: str
    files: dict[str, str]


@dataclass
class Passes:
    """The newest pass of each chapter, by its number.

    tested: of its tests alone, which is all that runs in a folder that is at a later chapter.
    """

    folder: WorkFolder
    passed: dict[int, Pass] = field(default_factory=dict)
    tested: dict[int, Pass] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: WorkFolder) -> Passes:
        """What the folder remembers. What can't be read is no pass, and stays until the next."""
        try:
            data = json.loads((folder.path / NAME).read_bytes())
            entries = {str(key): _pass(entry) for key, entry in data.items()}
            tests = {key: it for key, it in entries.items() if key.endswith(_TESTS)}
            passed = {int(key): it for key, it in entries.items() if key not in tests}
            tested = {int(key.removesuffix(_TESTS)): it for key, it in tests.items()}
            return cls(folder, passed, tested)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(folder)

    def note(self, number: int, files: dict[str, str], tests_only: bool = False) -> None:
        """Remember a pass; a record that could not be read is kept as a copy."""
        if not self.passed and not self.tested:
            self.folder.keep(NAME)
        kept = self.tested if tests_only else self.passed
        kept[number] = Pass(datetime.now().astimezone().isoformat(timespec="seconds"), files)
        whole = {
            f"{key:02d}{end}": vars(entry)
            for end, entries in (("", self.passed), (_TESTS, self.tested))
            for key, entry in sorted(entries.items())
        }
        write_atomically(self.folder.path / NAME, json.dumps(whole, indent=1) + "\n")


def note(own: MyBook, found: Report) -> None:
    """Remember the chapters that passed, with the files as they were read for the check.

    Only in a folder made by `start`: no other one has a place for it.
    """
    folder = WorkFolder.load(own.folder)
    if folder.chapter is None:
        return
    files = {path: file.sha256 for path, file in own.mine.items()}
    try:
        for chapter in found.chapters:
            if chapter.is_passed and not _is_given(own, own.chapter(chapter.number)):
                is_earlier = chapter.number != own.number
                Passes.load(folder).note(chapter.number, files, tests_only=is_earlier)
    except OSError as error:
        why = error.strerror or error
        found.notes.append(f"the pass can't be remembered in {folder.path}: {why}")


def _is_given(own: MyBook, chapter: Chapter) -> bool:
    """Whether it is an earlier chapter, and all that it makes is the book's."""
    made = (*chapter.manifest.creates, *chapter.manifest.modifies)
    return chapter.number != own.number and not any(own.is_mine(path) for path in made)


def has_passed(folder: Path, number: int) -> bool:
    """Whether the folder remembers a pass, if only of the tests, whatever was changed since."""
    passes = Passes.load(WorkFolder.load(folder))
    return number in passes.passed or number in passes.tested


def _pass(entry: dict[str, Any]) -> Pass:
    return Pass(str(entry["at"]), {str(path): str(it) for path, it in entry["files"].items()})
