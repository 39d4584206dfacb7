"""A reader's working folder: what was laid there, so that nothing of theirs is ever lost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from steplib.errors import UserError
from steplib.paths import sha256, write_all, write_atomically

MANIFEST = ".handbook.json"
EXERCISE_MANIFEST = ".handbook-exercise.json"
"""Of a folder with an exercise's answer, in which no chapter can be written."""
_OF_THE_BOOK = ("docs", "minisgl", "models", "steps", "tests", "tools")


@dataclass
class Laid:
    """What became of each file: written anew, or kept because the reader changed it."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


@dataclass
class WorkFolder:
    """path: the folder. chapter: its newest one. laid: sha256 of each file as it was laid there.

    manifest: the name of the file that keeps this.
    """

    path: Path
    chapter: int | None = None
    laid: dict[str, str] = field(default_factory=dict)
    manifest: str = MANIFEST

    @classmethod
    def load(cls, path: Path, manifest: str = MANIFEST) -> WorkFolder:
        """The folder with what its manifest says; without one it has no chapter."""
        try:
            data = json.loads((path / manifest).read_bytes())
            return cls(path, int(data["chapter"]), dict(data["laid"]), manifest)
        except (FileNotFoundError, NotADirectoryError):
            return cls(path, manifest=manifest)
        except (
            OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError
        ):  # fmt: skip
            raise UserError(
                f"{path / manifest} can't be read; delete it, and start in a new folder."
            ) from None

    @classmethod
    def around(cls, place: Path) -> WorkFolder:
        """The working folder that `place` is or lies in."""
        for folder in (place, *place.parents):
            if (folder / MANIFEST).is_file():
                return cls.load(folder)
        raise UserError(f"{place} lies in no working folder; name one with --mine DIR.")

    def lay(self, contents: dict[str, bytes]) -> Laid:
        """Write what is missing or stands as it was laid; leave alone what the reader changed."""
        found = Laid()
        for path, data in contents.items():
            current = self.read(path)
            if current not in (None, data) and sha256(current or b"") != self.laid.get(path):
                found.kept.append(path)
            else:
                found.written.append(path)
        self._write({path: contents[path] for path in found.written})
        return found

    def changed(self, contents: dict[str, bytes]) -> list[str]:
        """The files that stand otherwise than in `contents`, or are missing."""
        return [path for path, data in contents.items() if self.read(path) != data]

    def keep(self, path: str) -> str | None:
        """Copy a file to FILE.bak-N, with the first N that is free; None where there is none."""
        data = self.read(path)
        if data is None:
            return None
        number = 1
        while (self.path / f"{path}.bak-{number}").exists():
            number += 1
        write_atomically(self.path / f"{path}.bak-{number}", data)
        return f"{path}.bak-{number}"

    def replace(self, contents: dict[str, bytes]) -> None:
        """Write these files whatever stands there."""
        self._write(contents)

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None where there is none."""
        file = self.path / path
        if not file.parent.resolve().is_relative_to(self.path):
            raise UserError(f"{file.parent} is a link out of the folder; put a folder there.")
        if file.is_dir():
            raise UserError(f"{file} is a folder, and a file belongs there; move it away.")
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            wrong = next(folder for folder in file.parents if folder.exists())
            raise UserError(
                f"{wrong} is a file, and a folder belongs there; move it away."
            ) from None

    def _write(self, contents: dict[str, bytes]) -> None:
        """The manifest last: what it does not list yet counts as the reader's own."""
        write_all({self.path / path: data for path, data in contents.items()})
        self.laid |= {path: sha256(data) for path, data in contents.items()}
        whole = {"chapter": self.chapter, "laid": dict(sorted(self.laid.items()))}
        write_atomically(self.path / self.manifest, json.dumps(whole, indent=1) + "\n")


def to_start_in(place: Path, root: Path, number: int, manifest: str = MANIFEST) -> WorkFolder:
    """The folder for `start`: new, empty, or one that was started before and is not further on."""
    inside = place.relative_to(root).parts if place.is_relative_to(root) else ("",)
    if not inside or inside[0] in _OF_THE_BOOK:
        raise UserError(f"{place} belongs to the handbook; name a folder of your own.")
    standing = next(path for path in (place, *place.parents) if path.exists())
    if not standing.is_dir():
        raise UserError(f"{standing} is a file; name a folder.")
    folder = WorkFolder.load(place, manifest)
    if folder.chapter is None and place.is_dir() and any(place.iterdir()):
        raise UserError(f"{place} holds files that are not from the handbook; name a new folder.")
    if folder.chapter is not None and folder.chapter > number:
        raise UserError(
            f"{place} is at chapter {folder.chapter:02d} already; "
            f"start {number:02d} in a new folder."
        )
    folder.chapter = number
    return folder
