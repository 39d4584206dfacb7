"""The checkpoints: which there are, where they lie, and whether what lies there is whole."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steplib.checkpoints.recipe import Tiny
from steplib.checkpoints.weightfiles import problem_in
from steplib.errors import UserError, did_you_mean
from steplib.paths import DATA, ROOT, cache_dir, shown, write_atomically
from steplib.records import read_toml, record


@dataclass(frozen=True)
class Checkpoint:
    """One row of data/checkpoints.toml; `how` is tiny, smollm2 or hub."""

    name: str
    how: str
    what: str
    sha256: str = ""  # of the folder's content; empty where the source may change it
    megabytes: int = 0
    hub: str = ""
    tiny: Tiny | None = None

    @property
    def mend(self) -> str:
        """The command that makes it again."""
        verb = "make" if self.how == "tiny" else "fetch"
        return f"python tools/steps.py models {verb} {self.name}"


@functools.cache
def catalogue() -> dict[str, Checkpoint]:
    """Every checkpoint by name, in the order of the file."""
    file = DATA / "checkpoints.toml"
    where = shown(file, ROOT)
    found = {}
    for raw in read_toml(file, where)["checkpoint"]:
        name = raw.get("name", "?")
        tiny = record(Tiny, raw.pop("tiny"), f"{where}: {name}") if "tiny" in raw else None
        found[name] = replace(record(Checkpoint, raw, f"{where}: {name}"), tiny=tiny)
    return found


def names() -> list[str]:
    """The names of all checkpoints, tiny ones first."""
    return list(catalogue())


def checkpoint(name: str) -> Checkpoint:
    """The row of that name; UserError when there is none."""
    if name not in catalogue():
        advice = did_you_mean(name, names()) or f" There are {', '.join(names())}."
        raise UserError(f'there is no checkpoint "{name}".{advice}')
    return catalogue()[name]


def models_dir() -> Path:
    """models/, or the folder that MINISGL_MODELS names."""
    return Path(os.environ.get("MINISGL_MODELS") or ROOT / "models")


def folder(name: str) -> Path:
    """Where the checkpoint lies, or would lie."""
    return models_dir() / checkpoint(name).name


def present(name: str) -> bool:
    """Whether the checkpoint's folder is there; `problem` tells whether it is whole."""
    return folder(name).is_dir()


def ensure(name: str) -> Path:
    """The folder of a checkpoint that is there and whole; UserError with the mend otherwise."""
    if not present(name):
        raise UserError(f"the checkpoint {name} is not here; run `{checkpoint(name).mend}`.")
    sha256(name)
    return folder(name)


def sha256(name: str) -> str:
    """Digest of the checkpoint's content; UserError when it is damaged."""
    if trouble := problem(name):
        raise UserError(trouble)
    return digest(folder(name))


def problem(name: str) -> str | None:
    """What is wrong with a checkpoint that is present, as a sentence with the mend; or None."""
    row, place = checkpoint(name), folder(name)
    what = _unreadable(place) or problem_in(place)
    if not what and row.sha256 and digest(place) != row.sha256:
        what = "its content is not what checkpoints.toml promises"
    return f"{shown(place, ROOT)} is damaged: {what}; run `{row.mend}`." if what else None


def digest(place: Path) -> str:
    """The folder's `content_digest`, kept until a file's size or time changes."""
    stamp = [[str(file), *_size_and_time(file)] for file in _files(place)]
    note = cache_dir() / f"model-{place.name}-{zlib.crc32(str(place).encode()):08x}.json"
    known = _read_note(note)
    if known.get("stamp") == stamp:
        return str(known["sha256"])
    found = content_digest(place)
    write_atomically(note, json.dumps({"stamp": stamp, "sha256": found}))
    return found


def content_digest(place: Path) -> str:
    """SHA-256 over all files in sorted order: name, size and content."""
    total = hashlib.sha256()
    for file in _files(place):
        name = file.relative_to(place).as_posix()
        total.update(f"{name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def _files(place: Path) -> list[Path]:
    return sorted(file for file in place.rglob("*") if file.is_file())


def _size_and_time(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def _read_note(note: Path) -> dict[str, Any]:
    try:
        known = json.loads(note.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _unreadable(place: Path) -> str | None:
    """config.json and tokenizer.json must be there and be JSON."""
    for name in ("config.json", "tokenizer.json"):
        try:
            json.loads((place / name).read_bytes())
        except FileNotFoundError:
            return f"{name} is missing"
        except (OSError, ValueError):
            return f"{name} can't be read"
    return None
