"""What every check needs, and how a result is kept until something that it depends on changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import cache, mains, pairs, paritycheck
from steplib.errors import Problem
from steplib.facts import Result
from steplib.mine import MyBook
from steplib.stage import shared_files

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.lineup import Lineup
    from steplib.oracle import References
    from steplib.process import Runner


@dataclass
class Limits:
    """Seconds that a main, one probe and one call of generate may take."""

    main: float = mains.LIMIT
    probe: float = pairs.PROBE_LIMIT
    generate: float = paritycheck.LIMIT


@dataclass
class Context:
    """What every check needs. runner: for mains, fresh processes. forks: for all else."""

    book: Book
    lineup: Lineup
    references: References
    runner: Runner
    forks: Runner
    kept: cache.Results
    limits: Limits

    @cached_property
    def book_problems(self) -> list[Problem]:
        """What is wrong with manifests, forms and TREE files, of all chapters together."""
        return self.book.problems()

    @property
    def is_mine(self) -> bool:
        """Whether a reader's files are checked, and not the book's own."""
        return isinstance(self.book, MyBook)

    def hashes(self, number: int) -> dict[str, str]:
        """The sha256 of each file of a tree."""
        return {path: file.sha256 for path, file in self.book.tree(number).files.items()}

    def cached(self, make: Callable[[], Result], parts: Callable[[], list[Any]]) -> Result:
        """The result kept for `parts`, or a new one; only a pass is kept.

        Not when the parts changed meanwhile, for then nobody knows which ones passed.
        """
        key = cache.key(*parts())
        if (kept := self.kept.get(key)) is not None:
            return Result(**{**kept, "is_cached": True, "seconds": 0.0})
        result = make()
        if result.is_passed and cache.key(*parts()) == key:
            data = {"check": result.check, "summary": result.summary, "data": result.data}
            self.kept.put(key, data)
        return result

    def main_parts(self, chapter: Chapter) -> list[str]:
        """What a run of the chapter's main or generate depends on, but for the model."""
        files = [chapter.main, *shared_files(self.book.root)]
        return [self.book.tree(chapter.number).sha256, *map(cache.file_sha256, files)]


def test_files(book: Book, chapter: Chapter) -> list[Path]:
    """The chapter's test files."""
    return sorted((book.root / "tests").glob(f"test_ch{chapter.number:02d}_*.py"))
