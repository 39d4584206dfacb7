"""The mutants that change nothing anybody could see, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.paths import DATA, ROOT
from steplib.records import read_toml, record

if TYPE_CHECKING:
    from steplib.mutation.mutant import Mutant

FILE = "equivalent_mutants.toml"


@dataclass(frozen=True)
class Equivalent:
    """A mutant by its lasting name. reason: why no test can tell it from the original."""

    chapter: int
    file: str
    symbol: str
    before: str
    after: str
    reason: str
    occurrence: int = 0

    @property
    def name(self) -> tuple[str, str, str, str, int]:
        return self.file, self.symbol, self.before, self.after, self.occurrence


def load(path: Path = DATA / FILE) -> list[Equivalent]:
    """The listed mutants; UserError for an entry that can't be read."""
    rows = read_toml(path, path.name).get("mutant", [])
    return [record(Equivalent, row, f"{path.name}, mutant {i}") for i, row in enumerate(rows, 1)]


def listed(root: Path) -> list[Equivalent]:
    """Those of this handbook; a made-up book has none."""
    return load() if root == ROOT else []


def reasons(entries: list[Equivalent], number: int, found: list[Mutant]) -> dict[str, str]:
    """By id of a chapter's mutant, why it is called equivalent."""
    known = {entry.name: entry.reason for entry in entries if entry.chapter == number}
    return {mutant.id: known[mutant.name] for mutant in found if mutant.name in known}


def outdated(entries: list[Equivalent], number: int, found: list[Mutant]) -> list[Equivalent]:
    """The chapter's entries that no longer name any of its mutants."""
    names = {mutant.name for mutant in found}
    return [e for e in entries if e.chapter == number and e.name not in names]
