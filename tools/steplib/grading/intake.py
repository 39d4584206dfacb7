"""What a student handed in: a folder or a zip, read once and believed in nothing."""

from __future__ import annotations

import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NoReturn

from steplib.errors import UserError
from steplib.paths import sha256

MOST_FILES = 5000
MOST_BYTES = 50 << 20
_PASSED_OVER = {".git", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", "__MACOSX"}
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar")
_BROKEN_ZIP = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    NotImplementedError, RuntimeError, OSError, EOFError, ValueError, struct.error,
)  # fmt: skip


class Refused(Exception):
    """A submission that can't be taken at all; the sentence is its result."""


@dataclass
class HandedIn:
    """A submission's files by path, and what of it was left aside."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def sha256(self) -> str:
        """One digest over paths and contents."""
        lines = (f"{path}\0{sha256(data)}\n" for path, data in sorted(self.files.items()))
        return sha256("".join(lines).encode())


def submissions(folder: Path) -> list[Path]:
    """The folders and zips of a class, by name; UserError for none, or for two of one name."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; name the one that holds the submissions.")
    entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    found = sorted(p for p in entries if _is_submission(p))
    names = [name_of(path) for path in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        both = [_readable(path.name) for path in found if name_of(path) == twice]
        raise UserError(f"{folder} holds {twice} twice, as {' and '.join(both)}; remove one.")
    if not found:
        raise UserError(f"{folder} holds no submission: put a folder or a zip a student there.")
    return found


def passed_over(folder: Path) -> list[str]:
    """What else lies beside the submissions; it is not graded."""
    entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return sorted(_readable(path.name) for path in entries if not _is_submission(path))


def name_of(path: Path) -> str:
    """The student's name: the folder's, or the zip's without its ending."""
    return _readable(path.name if path.is_dir() else path.stem)


def _is_submission(path: Path) -> bool:
    return path.name not in _PASSED_OVER and (path.is_dir() or path.suffix.lower() == ".zip")


def _readable(name: str) -> str:
    """A name that every report can hold, also where its bytes are not UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def take(path: Path) -> HandedIn:
    """All of a submission, in memory; Refused, with the reason, for what no honest one is."""
    taken = HandedIn(name_of(path))
    if path.is_symlink():
        raise Refused(f"{path.name} is a link; put the files themselves there.")
    read = _from_folder(path, taken.notes) if path.is_dir() else _from_zip(path)
    size = 0
    for name, data in read:
        size += len(data)
        taken.files[name] = data
        if len(taken.files) > MOST_FILES:
            raise Refused(f"it holds more than {MOST_FILES} files; hand in your own files alone.")
        if size > MOST_BYTES:
            raise Refused(f"it holds more than {MOST_BYTES >> 20} MB; hand in your files alone.")
    for name in filter(lambda name: name.lower().endswith(_ARCHIVES), sorted(taken.files)):
        taken.notes.append(f"{name} was not unpacked; hand in the files themselves.")
    return taken


def _from_folder(folder: Path, notes: list[str]) -> Iterator[tuple[str, bytes]]:
    """Plain files only; links are noted and not followed."""
    try:
        yield from _walked(folder, notes)
    except OSError as error:
        shown = _readable(str(error.filename or folder.name))
        raise Refused(f"{shown} can't be read: {error.strerror}.") from None


def _stopped(error: OSError) -> NoReturn:
    raise error


def _walked(folder: Path, notes: list[str]) -> Iterator[tuple[str, bytes]]:
    for place, folders, names in os.walk(folder, onerror=_stopped):
        inside = Path(place)
        for name in sorted([*names, *folders]):
            path = inside / name
            shown = _readable(path.relative_to(folder).as_posix())
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                target = _readable(os.readlink(path))
                notes.append(f"{shown} is a link to {target}; it was not followed.")
            elif stat.S_ISREG(mode):
                if path.lstat().st_size > MOST_BYTES:
                    raise Refused(f"{shown} is larger than {MOST_BYTES >> 20} MB; leave it out.")
                yield shown, path.read_bytes()
            elif not stat.S_ISDIR(mode):
                notes.append(f"{shown} is no plain file; it was left aside.")
        folders[:] = sorted(set(folders) - _PASSED_OVER)


def _from_zip(path: Path) -> Iterator[tuple[str, bytes]]:
    """Files of a zip, each read no further than the limit, whatever its header says."""
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > 2 * MOST_FILES:
                raise Refused(f"it holds more than {MOST_FILES} files; hand in your own alone.")
            left = MOST_BYTES
            for entry in archive.infolist():
                _demand_plain(entry)
                name = entry.filename.replace("\\", "/")  # as some programs of Windows have it
                if name.endswith("/") or _PASSED_OVER & set(PurePosixPath(name).parts):
                    continue
                with archive.open(entry) as file:
                    data = file.read(left + 1)
                left -= len(data)
                yield PurePosixPath(name).as_posix(), data
                if left < 0:
                    return
    except _BROKEN_ZIP as error:
        raise Refused(f"the zip can't be read: {error}; make it anew.") from None


def _demand_plain(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts or ":" in name.split("/")[0]:
        raise Refused(f"the zip has the path {name!r}, which leads out of its folder.")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise Refused(f"the zip has a link, {name!r}; put the file itself there.")
