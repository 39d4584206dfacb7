"""The fast tier: what can be read, then the chapter's pairs on tiny models, in forks."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import checks, mine, minechecks, pairs
from steplib.check import default_jobs
from steplib.commands.check import context
from steplib.context import test_files
from steplib.lineup import Lineup
from steplib.manifest import OPTIONAL, REAL
from steplib.paths import shown
from steplib.process import Launcher
from steplib.runningchecks import tests_result
from steplib.stage import Stage, staged
from steplib.turns import parsing_in_turns
from steplib.warm import Warm
from steplib.watching import failure
from steplib.watching.run import Run

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.mine import MyBook

LIMIT = 20.0
"""Seconds that one probe may take here; a full check waits longer."""
_SLOW = 0.5  # a pair that took longer is run after those that did not


@dataclass(frozen=True)
class _Batch:
    """Pairs of one file, for one child."""

    tests: pairs.TestFile
    only: tuple[str, ...]


class Quick:
    """Holds warm processes; `begin` starts a run on the files as they are then."""

    def __init__(
        self,
        book: Book,
        folder: Path,
        wanted: str | None,
        shown: str,
        make: Callable[[Path], Warm | Launcher] = Warm if sys.platform == "linux" else Launcher,
    ) -> None:
        self.book, self.folder, self.wanted, self.shown = book, folder, wanted, shown
        self.make = make
        self.last_failed: str | None = None
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> Quick:
        self._models = tempfile.TemporaryDirectory(prefix="minisgl-models-")
        models = Path(self._models.name)
        for folder in Lineup.of(self.book).present:
            if folder.name not in (REAL, OPTIONAL):
                (models / folder.name).symlink_to(folder.resolve())
        self.lanes = [self.make(models) for _ in range(min(2, default_jobs()))]
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self.lanes:
            if isinstance(lane, Warm):
                lane.__exit__()
        self._models.cleanup()

    def begin(self, wake: Callable[[], None], before: Run | None = None) -> Run:
        """Start a run. before: go on where this one stopped, past its failures."""
        run = Run(done=dict(before.done) if before else {})

        def work() -> None:
            try:
                with parsing_in_turns():
                    self._check(run)
            except BaseException as error:  # told where the run is waited for
                run.error = error
            run.seconds = time.monotonic() - run.begun
            wake()

        run.thread = threading.Thread(target=work, daemon=True)
        run.thread.start()
        return run

    def _check(self, run: Run) -> None:
        own = mine.read(self.book, self.folder, self.wanted)
        chapter = own.chapter(self.wanted or own.number)
        if self._read(run, own, chapter):
            self._probe(run, own, chapter)

    def _read(self, run: Run, own: MyBook, chapter: Chapter) -> bool:
        """The checks that only read; the first that fails ends the run."""
        needed = context(own)
        names = ("files", "references") if chapter.number == own.number else ("files",)
        for check in minechecks.checks_of(own, self.shown)(own.newest):
            if check.name in names:
                result = checks.prove(needed, check, chapter, {})
                if not result.is_passed:
                    run.failures += failure.of_result(own, chapter, check.says, result)
                    return False
        return True

    def _probe(self, run: Run, own: MyBook, chapter: Chapter) -> None:
        files = [pairs.read(path) for path in test_files(own, chapter)]
        run.total = sum(len(tests.pairs) for tests in files)
        first, others = self._plan(files, run.done)
        with staged(own.tree(chapter.number), own.root, [tests.path for tests in files]) as stage:
            work = _Work(self, run, own, chapter, stage)
            if first is not None:
                work.lane(self.lanes[0], deque([first]).popleft)
            takers = [others.popleft if i == 0 else others.pop for i in range(len(self.lanes))]
            threads = [
                threading.Thread(target=work.lane, args=each)
                for each in zip(self.lanes, takers, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if work.errors:
            raise work.errors[0]
        if run.failures:
            self.last_failed = run.failures[0].test
        elif run.is_whole:
            self.last_failed = None

    def _plan(
        self, files: list[pairs.TestFile], done: dict[str, pairs.TestResult]
    ) -> tuple[_Batch | None, deque[_Batch]]:
        """The pair that failed last, alone; then quick ones file by file, then slow ones."""
        first, quick, slow = None, [], []
        for tests in files:
            ids = {pair.name: key_of(tests, pair.name) for pair in tests.pairs}
            left = [name for name, key in ids.items() if key not in done]
            if (own := [name for name in left if ids[name] == self.last_failed]) and not done:
                first = _Batch(tests, tuple(own))
                left.remove(own[0])
            late = [name for name in left if self.seconds.get(ids[name], 0.0) > _SLOW]
            quick.append(_Batch(tests, tuple(name for name in left if name not in late)))
            slow.append(_Batch(tests, tuple(late)))
        return first, deque(batch for batch in [*quick, *slow] if batch.only)


@dataclass
class _Work:
    """The lanes of one run on one stage."""

    quick: Quick
    run: Run
    own: MyBook
    chapter: Chapter
    stage: Stage
    errors: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def lane(self, runner: Warm | Launcher, take: Callable[[], _Batch]) -> None:
        """Take batches until none is left, or the run is to stop."""
        try:
            while not self.run.stop.is_set():
                self._batch(runner, take())
        except IndexError:  # none is left
            return
        except BaseException as error:
            self.errors.append(error)
            self.run.stop.set()

    def _batch(self, runner: Warm | Launcher, batch: _Batch) -> None:
        before = time.monotonic()

        def on_result(result: pairs.TestResult) -> None:
            nonlocal before
            now, key = time.monotonic(), key_of(batch.tests, result.name)
            self.quick.seconds[key], before = now - before, now
            self.run.done[key] = result

        ran = pairs.run(
            batch.tests, self.stage, runner, limit=LIMIT, only=frozenset(batch.only),
            stop_at_first=True, ended=self.run.stop, on_result=on_result,
        )  # fmt: skip
        self.run.done |= {key_of(batch.tests, result.name): result for result in ran.results}
        if ran.is_failed and not self.run.is_cancelled:
            self.run.stop.set()
            result = tests_result(ran, shown(batch.tests.path, self.own.root), "your files")
            with self.lock:
                found = failure.of_result(self.own, self.chapter, "tests", result)
                self.run.failures += found


def key_of(tests: pairs.TestFile, name: str) -> str:
    """A pair's name in the whole book."""
    return f"tests/{tests.path.name}::{name}"
