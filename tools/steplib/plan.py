"""The thirty chapters as planned, written or not: numbers, slugs, titles, stages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from steplib.paths import DATA
from steplib.records import read_toml, record


@dataclass(frozen=True)
class PlannedChapter:
    """A chapter of the plan; `adds` is one sentence for a reader."""

    number: int
    slug: str
    title: str
    stage: str
    adds: str

    @property
    def name(self) -> str:
        """The folder's and the page's name: `05-attention-backend`."""
        return f"{self.number:02d}-{self.slug}"


@dataclass(frozen=True)
class Stage:
    """A stretch of the book: how long it takes, and what the reader holds at its end."""

    name: str
    days: str
    holds: str


@dataclass(frozen=True)
class Plan:
    """data/chapters.toml."""

    stage: tuple[Stage, ...]
    chapter: tuple[PlannedChapter, ...]

    def get(self, number: int) -> PlannedChapter | None:
        """The planned chapter with this number, if there is one."""
        return next((chapter for chapter in self.chapter if chapter.number == number), None)


@cache
def load() -> Plan:
    """The plan that the tool carries."""
    where = "tools/steplib/data/chapters.toml"
    return record(Plan, read_toml(DATA / "chapters.toml", where), where)
