"""Tries a chapter's mutants, several side by side, and keeps each verdict as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from steplib.context import test_files
from steplib.lineup import Lineup
from steplib.mutation import equivalents, scope
from steplib.mutation.clean import Clean, Probe
from steplib.mutation.kept import Kept
from steplib.mutation.report import ChapterRun
from steplib.mutation.trial import Stoppable, Trial
from steplib.process import stop_all
from steplib.stage import Stage, staged
from steplib.warm import PRELOAD

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.mutation.mutant import Mutant
    from steplib.oracle import References

Say = Callable[[ChapterRun], None]


@dataclass
class Mutation:
    """A mutation run on a book. say: is told after each verdict."""

    book: Book
    references: References
    say: Say
    jobs: int = 1
    preload: tuple[str, ...] = PRELOAD

    def chapter(self, chapter: Chapter, size: int | None, seed: int) -> ChapterRun:
        """Try `size` mutants of the chapter, or all for None; kept verdicts are not made again."""
        every = scope.mutants_of(self.book, chapter.number)
        chosen = scope.sample(every, size, seed)
        files = test_files(self.book, chapter)
        kept = Kept(self.book, chapter, files)
        run = ChapterRun(chapter.number, chapter.title, len(every), chosen)
        listed = equivalents.listed(self.book.root)
        run.reasons = equivalents.reasons(listed, chapter.number, chosen)
        known = {m.id: verdict for m in chosen if (verdict := kept.get(m)) is not None}
        run.verdicts.update(known)
        waiting = [m for m in chosen if m.id not in run.verdicts and m.id not in run.reasons]
        if waiting:
            _Workers(self, chapter, files, kept, run).work(waiting)
        return run


class _Workers:
    """Threads that take mutants from one queue, each on a stage of its own."""

    def __init__(
        self, whole: Mutation, chapter: Chapter, files: list[Path], kept: Kept, run: ChapterRun
    ) -> None:
        self.whole, self.chapter, self.files = whole, chapter, files
        self.kept, self.run = kept, run
        self.queue: SimpleQueue[Mutant] = SimpleQueue()
        self.error: BaseException | None = None
        lineup = Lineup.of(whole.book)
        self.models, self.model = lineup.folder, lineup.whole(chapter.manifest.parity.models[0])

    def work(self, mutants: list[Mutant]) -> None:
        """Try them all; the first error ends the run, and Ctrl-C leaves no child behind."""
        for mutant in mutants:
            self.queue.put(mutant)
        try:
            with self._place() as (stage, runner):
                probes = Clean(stage, runner, self.files).probes
                others = [
                    threading.Thread(target=self._other, args=(probes,), daemon=True)
                    for _ in range(min(self.whole.jobs, len(mutants)) - 1)
                ]
                for thread in others:
                    thread.start()
                self._empty(stage, runner, probes)
                for thread in others:
                    thread.join()
        except BaseException as error:
            self.error = self.error or error  # the other threads end after their mutant
            stop_all()
            raise
        if self.error is not None:
            raise self.error

    @contextmanager
    def _place(self) -> Iterator[tuple[Stage, Stoppable]]:
        tree = self.whole.book.tree(self.chapter.number)
        sources = [self.chapter.main, *self.files]
        runner = Stoppable(self.models, self.whole.preload)
        with staged(tree, self.whole.book.root, sources) as stage, runner:
            yield stage, runner

    def _other(self, probes: list[Probe]) -> None:
        try:
            with self._place() as (stage, runner):
                self._empty(stage, runner, probes)
        except BaseException as error:
            self.error = error

    def _empty(self, stage: Stage, runner: Stoppable, probes: list[Probe]) -> None:
        whole = self.whole
        trial = Trial(self.chapter, stage, runner, self.model, whole.references, probes)
        trial.begin()
        while self.error is None:
            try:
                mutant = self.queue.get_nowait()
            except Empty:
                return
            verdict = trial.verdict(mutant, self.kept.hint(mutant))
            self.kept.put(mutant, verdict)
            self.run.verdicts[mutant.id] = verdict
            whole.say(self.run)
