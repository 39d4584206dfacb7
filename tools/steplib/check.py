"""Runs the checks of several chapters side by side and gathers them in book order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from steplib.checks import CHECKS, Check, prove
from steplib.context import Context
from steplib.facts import ChapterResults, Report, Result
from steplib.process import THREADS, halt, stop_all
from steplib.prompts import prompt_set
from steplib.turns import parsing_in_turns

if TYPE_CHECKING:
    from steplib.book import Chapter

_ORDER = (
    *("manifest", "files", "references", "tests", "main", "types"),
    *("parity", "untouched", "text"),
)
"""The order of work while references are asked for. Reports are in book order."""


ChecksOf = Callable[["Chapter"], tuple[Check, ...]]
"""What is to be proved of a chapter."""


class Watcher(Protocol):
    """Sees what begins and ends; the progress display is one."""

    def begin(self, chapter: Chapter, check: str) -> None: ...
    def end(self, chapter: Chapter, check: str, result: Result) -> None: ...


def default_jobs() -> int:
    """As many children side by side as there are cores for their threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) // THREADS)


@dataclass
class _Run:
    context: Context
    watcher: Watcher
    results: dict[int, dict[str, Result]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def one(self, chapter: Chapter, check: Check) -> None:
        """Prove one thing and keep the result; runs in a worker."""
        self.watcher.begin(chapter, check.name)
        begun = time.monotonic()
        result = prove(self.context, check, chapter, self.results[chapter.number])
        result.seconds = time.monotonic() - begun
        with self.lock:
            self.results[chapter.number][check.name] = result
        self.watcher.end(chapter, check.name, result)


def check_chapters(
    context: Context,
    chapters: list[Chapter],
    jobs: int,
    watcher: Watcher,
    require_real: bool = False,
    only: tuple[str, ...] = _ORDER,
    checks_of: ChecksOf = lambda _: CHECKS,
) -> Report:
    """The checks of every chapter, or those in `only`; interrupted, it leaves no child behind."""
    begun = time.monotonic()
    table = {
        chapter.number: tuple(check for check in checks_of(chapter) if check.name in only)
        for chapter in chapters
    }
    run = _Run(context, watcher, {chapter.number: {} for chapter in chapters})
    with parsing_in_turns():
        _work(run, chapters, jobs, table)
    found = [_in_book_order(c, run.results[c.number], checks_of(c)) for c in chapters]
    lineup = context.lineup
    return Report(
        found,
        lineup.used(chapters),
        lineup.notes,
        is_real_missing=require_real and not lineup.has_real,
        seconds=time.monotonic() - begun,
        earlier_forms=context.book.earlier_forms,
    )


def _work(
    run: _Run, chapters: list[Chapter], jobs: int, table: dict[int, tuple[Check, ...]]
) -> None:
    pool = ThreadPoolExecutor(max_workers=jobs)
    try:
        every = [(c, check) for c in chapters for check in table[c.number]]
        everything = sorted(every, key=lambda task: _ORDER.index(task[1].name))
        early = _Early([(c, check) for c, check in everything if not check.needs])
        late = [(c, check) for c, check in everything if check.needs]
        compared = [chapter for chapter, check in early.waiting if check.name == "parity"]
        prepare = [partial(early.prepare, run.context, compared)] if compared else []
        _finish(pool, [*prepare, *[partial(early.next, run.one)] * len(early.waiting)])
        _finish(pool, [partial(run.one, c, k) for c, k in late])
    except BaseException:
        halt()  # Ctrl-C, or a fault of the tool
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        stop_all()


def _finish(pool: ThreadPoolExecutor, work: list[Callable[[], None]]) -> None:
    """Do all of it; the first exception (a fault of the tool, or Ctrl-C) ends the run."""
    waiting: set[Future[None]] = {pool.submit(task) for task in work}
    while waiting:
        done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()


@dataclass
class _Early:
    """What needs no other result. Parity, the longest, is next once its references are there."""

    waiting: list[tuple[Chapter, Check]]
    is_prepared: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, context: Context, compared: list[Chapter]) -> None:
        _prepare(context, compared)
        self.is_prepared = True

    def next(self, one: Callable[[Chapter, Check], None]) -> None:
        with self.lock:
            ready = [i for i, (_, check) in enumerate(self.waiting) if check.name == "parity"]
            task = self.waiting.pop(ready[0] if self.is_prepared and ready else 0)
        one(*task)


def _prepare(context: Context, chapters: list[Chapter]) -> None:
    """Ask for all references that parity will need, at once; each check reports its own errors."""
    from steplib.errors import UserError

    folders: dict[tuple[Path, str], None] = {}
    for chapter in chapters:
        try:
            kind = chapter.manifest.parity.prompts
            folders.update({(f, kind): None for f in context.lineup.parity_models(chapter)})
        except UserError:
            continue
    try:
        wanted = [(folder, prompt_set(folder, kind=kind)) for folder, kind in folders]
        context.references.prepare(wanted)
    except UserError:
        return


def _in_book_order(
    chapter: Chapter, results: dict[str, Result], table: tuple[Check, ...]
) -> ChapterResults:
    ordered = [results[check.name] for check in table if check.name in results]
    says = {check.name: check.says for check in table}
    return ChapterResults(chapter.number, chapter.name, chapter.title, ordered, says)
