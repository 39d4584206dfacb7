"""Shows how far a check has come: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steplib.checks import CHECKS

if TYPE_CHECKING:
    from steplib.book import Chapter
    from steplib.facts import Result

_SLOW = 2.0  # seconds after which a check gets a line of its own, where lines are all there is


class Plain:
    """A line for each check that took a while, and for each that did not pass."""

    def __init__(self, chapters: list[Chapter]) -> None:
        self.lock = threading.Lock()

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def begin(self, chapter: Chapter, check: str) -> None:
        return

    def end(self, chapter: Chapter, check: str, result: Result) -> None:
        if result.is_passed and result.seconds < _SLOW:
            return
        with self.lock:
            said = f"{chapter.number:02d} {check}: {result.verdict} after {result.seconds:.1f} s"
            print(said, flush=True)


class Live:
    """One row a chapter, one column a check."""

    def __init__(self, chapters: list[Chapter], names: Sequence[str]) -> None:
        from rich.live import Live as RichLive

        self.begun, self.names = time.monotonic(), names
        self.chapters = {chapter.name: dict.fromkeys(names, "") for chapter in chapters}
        self.lock = threading.Lock()
        self.live = RichLive(get_renderable=self.table, refresh_per_second=4, transient=True)

    def __enter__(self) -> Live:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def begin(self, chapter: Chapter, check: str) -> None:
        self._mark(chapter, check, "[cyan]...[/]")

    def end(self, chapter: Chapter, check: str, result: Result) -> None:
        word = "[green]ok[/]" if result.is_passed else f"[bold red]{result.verdict}[/]"
        self._mark(chapter, check, word)

    def _mark(self, chapter: Chapter, check: str, mark: str) -> None:
        with self.lock:
            self.chapters[chapter.name][check] = mark

    def table(self) -> Any:
        """The table as it is now."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column(f"{time.monotonic() - self.begun:.0f} s", min_width=24)
        for name in self.names:
            table.add_column(name)
        with self.lock:
            for chapter, marks in self.chapters.items():
                table.add_row(chapter, *marks.values())
        return table


_NAMES = [check.name for check in CHECKS]


def progress(chapters: list[Chapter], names: Sequence[str] = _NAMES) -> Plain | Live:
    """What fits where stdout goes. names: those of the checks."""
    if sys.stdout.isatty():
        try:
            return Live(chapters, names)
        except ImportError:  # rich is one of the dev extras
            pass
    return Plain(chapters)
