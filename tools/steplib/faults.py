"""Planted faults: small wrong changes of a tree that parity or the tests must catch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import pairs, paritycheck
from steplib.context import test_files
from steplib.errors import UserError
from steplib.facts import Result
from steplib.paths import write_atomically
from steplib.prompts import prompt_set
from steplib.records import read_toml, record
from steplib.stage import Stage, staged

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.oracle import References
    from steplib.process import Runner

PARITY = "parity"
TOKENS = 16
"""Per prompt: enough to show a fault, and quick."""


@dataclass(frozen=True)
class Fault:
    """One row of planted.toml: in `file` of the chapter's tree, `old` (there once) becomes `new`.

    caught_by: "parity" (on each of `models`), or the name of one of the chapter's test pairs.
    """

    name: str
    chapter: int
    file: str
    old: str
    new: str
    caught_by: str
    models: tuple[str, ...] = ()


def load(path: Path) -> list[Fault]:
    """The faults of a file; UserError when there is none, for then nothing would be shown."""
    rows = read_toml(path, path.name).get("fault", [])
    if not rows:
        raise UserError(f"{path.name} plants no fault; add a [[fault]].")
    faults = [record(Fault, row, f"{path.name}, fault {i}") for i, row in enumerate(rows, 1)]
    for fault in faults:
        if fault.caught_by == PARITY and not fault.models:
            raise UserError(f'{path.name}: "{fault.name}" names no models for parity; add some.')
    return faults


@dataclass
class Planter:
    """Runs a chapter's parity or one of its pairs on its tree, with a fault planted or without."""

    book: Book
    references: References
    runner: Runner
    folder: Path

    def caught(self, fault: Fault) -> list[Result]:
        """The results with the fault in place, one a model; each of them should have failed."""
        return self._results(fault, is_planted=True)

    def clean(self, fault: Fault) -> list[Result]:
        """The same without the fault; each of them should have passed."""
        return self._results(fault, is_planted=False)

    def _results(self, fault: Fault, is_planted: bool) -> list[Result]:
        chapter = self.book.chapter(fault.chapter)
        files, tree = test_files(self.book, chapter), self.book.tree(chapter.number)
        with staged(tree, self.book.root, [chapter.main, *files]) as place:
            if is_planted:
                plant(fault, place.tree)
            if fault.caught_by == PARITY:
                return [self._parity(chapter, place, name) for name in fault.models]
            return [self._test(fault, place, files)]

    def _parity(self, chapter: Chapter, place: Stage, name: str) -> Result:
        model = self.folder / name
        if not (model / "config.json").is_file():
            raise UserError(f"the checkpoint {name} is not here; run: steps.py models make {name}")
        kind = chapter.manifest.parity.prompts
        prompts = replace(prompt_set(model, kind=kind), max_tokens=TOKENS)
        runs = paritycheck.model_runs(chapter.manifest.parity, name)[:1]
        how = replace(chapter.manifest.parity, runs=tuple(runs))
        return paritycheck.check_model(place, self.runner, model, prompts, self.references, how)

    def _test(self, fault: Fault, place: Stage, files: list[Path]) -> Result:
        for file in files:
            tests = pairs.read(file)
            if fault.caught_by in [pair.name for pair in tests.pairs]:
                only = frozenset([fault.caught_by])
                ran = pairs.run(tests, place, self.runner, only=only)
                return Result("tests", ran.verdict, "; ".join(r.detail for r in ran.results))
        number = f"{fault.chapter:02d}"
        raise UserError(f'"{fault.name}": chapter {number} has no pair {fault.caught_by}.')


def plant(fault: Fault, tree: Path) -> None:
    """Change the file below `tree`; UserError when `old` isn't there exactly once."""
    file = tree / fault.file
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if text.count(fault.old) != 1:
        raise UserError(
            f'"{fault.name}": {fault.file} of chapter {fault.chapter:02d} holds its old text '
            f"{text.count(fault.old)} times; give a text that is there once."
        )
    write_atomically(file, text.replace(fault.old, fault.new))
