"""Replaces each symbol that a chapter adds by a stub, one at a time; its check must notice.

So no part of the chapter can be idle: neither main nor tests may do its work beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import mains, pairs
from steplib.bodies import Symbol, symbols
from steplib.paths import write_atomically
from steplib.process import Runner
from steplib.stage import Stage, staged

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.pairs import TestFile

PROBE_LIMIT, MAIN_LIMIT = 60.0, 120.0


def added_symbols(book: Book, number: int) -> list[Symbol]:
    """What the chapter adds: in created files everything, in modified ones the new names."""
    chapter, tree = book.chapter(number), book.tree(number)
    inert = {entry.symbol for c in book.chapters for entry in c.manifest.inert}
    earlier = [c.number for c in book.chapters if c.number < number]
    before = book.tree(earlier[-1]).files if earlier else {}
    found = []
    for path in (*chapter.manifest.creates, *chapter.manifest.modifies):
        old = {s.name for s in symbols(path, before[path].text())} if path in before else set()
        now = symbols(path, tree.files[path].text())
        found += [s for s in now if s.name not in old and str(s) not in inert]
    return found


@dataclass
class Substitution:
    """The symbols of one chapter on one stage."""

    book: Book
    chapter: Chapter
    tests: list[TestFile]
    stage: Stage
    runner: Runner
    model: Path
    reached: dict[str, dict[str, dict[str, set[int]]]] = field(default_factory=dict)

    def survivors(self) -> list[Symbol]:
        """The symbols whose stub nobody notices."""
        for tests in self.tests:
            self.reached[tests.path.name] = self._reached_by(tests)
        return [s for s in added_symbols(self.book, self.chapter.number) if not self.notices(s)]

    def _reached_by(self, tests: TestFile) -> dict[str, dict[str, set[int]]]:
        """Which lines each probe runs, by probe and file."""
        body = {
            "module": tests.path.stem,
            "probes": [[p.name, p.seed] for p in tests.pairs],
            "by_probe": True,
        }
        outcome = self.runner.run(self.stage.job("probes", body, coverage=True), PROBE_LIMIT)
        by_probe = outcome.end.get("by_probe", {})
        return {n: {f: set(ls) for f, ls in files.items()} for n, files in by_probe.items()}

    def notices(self, symbol: Symbol) -> bool:
        """Whether a probe, or else the main, fails with a stub in the symbol's place."""
        file = self.stage.tree / symbol.path
        text = file.read_text(encoding="utf-8")
        write_atomically(file, symbol.stubbed(text))
        try:
            return any(self._fails(t, symbol) for t in self.tests) or self._main_fails()
        finally:
            write_atomically(file, text)

    def _fails(self, tests: TestFile, symbol: Symbol) -> bool:
        """Tries a probe that runs the symbol's lines first, and then the others that do."""
        body = set(range(symbol.lines[0], symbol.lines[1] + 1))
        near = [
            p.name
            for p in tests.pairs
            if self.reached[tests.path.name].get(p.name, {}).get(symbol.path, set()) & body
        ]
        if symbol.is_class:
            near = near or [p.name for p in tests.pairs]
        for chosen in (near[:1], near[1:]):
            if chosen and self._ran(tests, chosen) not in ("passed", "nothing ran"):
                return True
        return False

    def _ran(self, tests: TestFile, names: list[str]) -> str:
        only = frozenset(names)
        return pairs.run(tests, self.stage, self.runner, limit=PROBE_LIMIT, only=only).verdict

    def _main_fails(self) -> bool:
        body = {"script": "main.py", "argv": ["--model", str(self.model)]}
        second = self.chapter.manifest.main.second_process
        job = self.stage.job("main", body, second_process=second)
        hashes = {
            p.relative_to(self.stage.tree).as_posix(): _sha256(p)
            for p in self.stage.tree.rglob("*.py")
        }
        outcome = self.runner.run(job, MAIN_LIMIT)
        return not mains.judged(outcome, hashes, self.model.name).is_passed


def _sha256(path: Path) -> str:
    from steplib.paths import sha256

    return sha256(path.read_bytes())


def survivors(
    book: Book, number: int, files: list[Path], runner: Runner, model: Path
) -> list[Symbol]:
    """The symbols of a chapter that nothing would miss."""
    chapter = book.chapter(number)
    with staged(book.tree(number), book.root, [chapter.main, *files]) as stage:
        tests = [pairs.read(file) for file in files]
        return Substitution(book, chapter, tests, stage, runner, model).survivors()
