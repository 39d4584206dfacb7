"""Upstream's public interface at the pinned commit, and where each of its files went."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from steplib import interface
from steplib.errors import UserError, did_you_mean
from steplib.interface import Interface
from steplib.paths import DATA
from steplib.records import read_toml, record

FILE = DATA / "interface.json"
_UPSTREAM_PREFIX = "python/"  # upstream's package lies in python/minisgl/, ours in minisgl/


@dataclass(frozen=True)
class UpstreamFile:
    """One file of upstream: the chapter that teaches it, or why the book leaves it out."""

    path: str
    chapter: int | None = None
    left_out: str = ""


@dataclass(frozen=True)
class Catalogue:
    """data/interface.json, by our paths: `minisgl/core.py`."""

    repository: str
    commit: str
    files: dict[str, dict[str, Any]]

    @cached_property
    def interfaces(self) -> dict[str, Interface]:
        """The interface of each Python file of the package."""
        return {
            path: interface.from_facts(facts)
            for path, facts in self.files.items()
            if path.startswith("minisgl/") and path.endswith(".py")
        }

    def permalink(self, symbol: str) -> str:
        """The line-numbered address of `minisgl/core.py::Req.extend_len`, or of a whole file."""
        path, _, name = symbol.partition("::")
        facts = self.files.get(path)
        if facts is None:
            raise UserError(f"Upstream has no file {path}.{did_you_mean(path, self.files)}")
        url = f"https://github.com/{self.repository}/blob/{self.commit}/{facts['path']}"
        if not name:
            return url
        first, last = self._lines(path, name)
        return f"{url}#L{first}-L{last}" if last > first else f"{url}#L{first}"

    def _lines(self, path: str, name: str) -> tuple[int, int]:
        """First and last line of a symbol; a field stands on its class's lines."""
        outer, _, inner = name.partition(".")
        symbols = self.files[path]["symbols"]
        found = next((symbol for symbol in symbols if symbol["name"] == outer), None)
        if found and inner:
            members = [*found.get("methods", []), *found.get("fields", [])]
            member = next((member for member in members if member["name"] == inner), None)
            found = member and (member if "line" in member else found)
        if found is None:
            known = [symbol["name"] for symbol in symbols]
            raise UserError(f"Upstream's {path} has no {name}.{did_you_mean(outer, known)}")
        return found["line"], found["end_line"]


@cache
def load() -> Catalogue:
    """The catalogue that the tool carries."""
    return from_facts(raw())


def raw() -> dict[str, Any]:
    """The content of data/interface.json."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def from_facts(facts: dict[str, Any]) -> Catalogue:
    """The catalogue of the file's content, or of what was read from a checkout."""
    files = {file["path"].removeprefix(_UPSTREAM_PREFIX): file for file in facts["files"]}
    return Catalogue(facts["repository"], facts["commit"], files)


@dataclass(frozen=True)
class _Files:
    file: tuple[UpstreamFile, ...]


def upstream_files() -> tuple[UpstreamFile, ...]:
    """data/upstream_files.toml: every file of upstream, by upstream's own path."""
    where = "tools/steplib/data/upstream_files.toml"
    return record(_Files, read_toml(DATA / "upstream_files.toml", where), where).file
