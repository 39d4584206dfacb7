"""Which checkpoints a run of check uses: the tiny ones of each manifest, and the real ones here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import models
from steplib.errors import UserError
from steplib.manifest import OPTIONAL, REAL
from steplib.paths import ROOT

if TYPE_CHECKING:
    from steplib.book import Book, Chapter


@dataclass(frozen=True)
class Lineup:
    """folder: where checkpoints lie. chosen: only this one, by name, when it is set."""

    folder: Path
    chosen: str | None = None

    @classmethod
    def of(cls, book: Book, chosen: str | None = None) -> Lineup:
        """The book's models: models/ of the repository, or of a made-up book."""
        own = book.root / "models"
        return cls(own if book.root != ROOT and own.is_dir() else models.models_dir(), chosen)

    @cached_property
    def present(self) -> list[Path]:
        """Every checkpoint that is here."""
        return sorted(path.parent for path in self.folder.glob("*/config.json"))

    def has(self, name: str) -> bool:
        return (self.folder / name / "config.json").is_file()

    @property
    def has_real(self) -> bool:
        """Whether the real model that every chapter is checked on is here."""
        return self.has(REAL)

    @property
    def notes(self) -> list[str]:
        """What a reader must know about models that are not here."""
        found = []
        if not self.has(REAL):
            mend = f"python tools/steps.py models fetch {REAL}"
            found.append(f"real model NOT checked: {REAL} isn't here ({mend})")
        if not self.has(OPTIONAL):
            found.append(f"{OPTIONAL} isn't here, so it was left out")
        return found

    def parity_models(self, chapter: Chapter) -> list[Path]:
        """The manifest's models and the real ones that are here, in that order."""
        if self.chosen:
            return [self.whole(self.chosen)]
        real = [name for name in (REAL, OPTIONAL) if self.has(name)]
        wanted = dict.fromkeys([*chapter.manifest.parity.models, *real])
        return [self.whole(name) for name in wanted]

    def main_model(self, chapter: Chapter) -> Path:
        """What main runs on: the real model, or else the chapter's first tiny one."""
        names = [self.chosen] if self.chosen else [REAL, *chapter.manifest.parity.models]
        here = [name for name in names if name and self.has(name)]
        if not here and not self.chosen:
            raise UserError("no checkpoint is here; run: python tools/steps.py models make")
        return self.whole(here[0] if here else str(self.chosen))

    def used(self, chapters: list[Chapter]) -> list[str]:
        """The names of all checkpoints that these chapters use and that are here."""
        names = [name for c in chapters for name in c.manifest.parity.models]
        return [name for name in dict.fromkeys([*names, REAL, OPTIONAL]) if self.has(name)]

    def whole(self, name: str) -> Path:
        """The folder of a checkpoint that is here and undamaged; UserError with the mend."""
        place = Path(name) if "/" in name else self.folder / name
        if not (place / "config.json").is_file():
            if place.name in models.catalogue():
                mend = models.checkpoint(place.name).mend
                raise UserError(f"the checkpoint {name} is not here; run: {mend}")
            raise UserError(
                f"there is no checkpoint {name}; see: python tools/steps.py models list"
            )
        if self.is_of_catalogue(place):
            models.ensure(place.name)
        return place

    def is_of_catalogue(self, place: Path) -> bool:
        """Whether it is one of the checkpoints that the tool makes or fetches."""
        return place.parent == models.models_dir() and place.name in models.catalogue()
