"""A checkout of upstream's repository: its commit, its sources, its interface."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from steplib import catalogue
from steplib.catalogue import Catalogue
from steplib.errors import UserError
from steplib.upstream.facts import Facts, facts

_FOLDERS = ("benchmark", "python", "tests")
_NATIVE = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
_SKIPPED = ("__pycache__", "build", "node_modules")


@dataclass(frozen=True)
class Checkout:
    """The folder, read once."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> Checkout:
        """UserError when this is no checkout of the repository."""
        if not (path / "python/minisgl").is_dir():
            raise UserError(
                f"{path} is no checkout of mini-sglang: it has no folder python/minisgl."
            )
        return cls(path.resolve())

    @cached_property
    def commit(self) -> str | None:
        """The commit that is checked out; None where git does not know."""
        found = _git(self.path, "rev-parse", "--show-cdup", "HEAD")
        up, _, commit = found.partition("\n")
        return commit.strip() if commit and not up else None

    @cached_property
    def changed(self) -> list[str]:
        """Files that are not as that commit has them."""
        found = _git(self.path, "status", "--porcelain", "--", *_FOLDERS)
        return [line[3:] for line in found.splitlines()]

    @cached_property
    def sources(self) -> dict[str, str]:
        """The text of each Python source by its path there; an empty file offers nothing."""
        texts = {path: self._text(path) for path in self._paths if path.endswith(".py")}
        return {path: text for path, text in texts.items() if text.strip()}

    @cached_property
    def native(self) -> dict[str, int]:
        """The number of lines of each C++ or CUDA source."""
        paths = [path for path in self._paths if path.endswith(_NATIVE)]
        return {path: len(self._text(path).splitlines()) for path in paths}

    @cached_property
    def files(self) -> list[Facts]:
        """The catalogue's entries for the Python sources."""
        return [self._facts(path, text) for path, text in self.sources.items()]

    def catalogue(self) -> Catalogue:
        """The checkout in the form of the catalogue that the tool carries."""
        whole = {"repository": catalogue.load().repository, "commit": self.commit or "unknown"}
        return catalogue.from_facts({**whole, "files": self.files})

    @cached_property
    def _paths(self) -> list[str]:
        found = [path for name in _FOLDERS for path in (self.path / name).rglob("*")]
        inside = [path.relative_to(self.path) for path in found if path.is_file()]
        return sorted(path.as_posix() for path in inside if not _is_skipped(path))

    def _text(self, path: str) -> str:
        try:
            return (self.path / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"{self.path / path} is not UTF-8; check the commit out anew."
            ) from None

    def _facts(self, path: str, text: str) -> Facts:
        try:
            return facts(path, text)
        except SyntaxError as error:
            where = f"{self.path / path}:{error.lineno}"
            raise UserError(
                f"{where}: {error.msg}; read it with a Python that knows this."
            ) from None


def _is_skipped(path: Path) -> bool:
    return any(part in _SKIPPED or part.startswith(".") for part in path.parts)


def _git(folder: Path, *words: str) -> str:
    """What git says; nothing when there is no git, or this is no repository."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""
