"""Where things lie, and how a file is written so that it is never seen half-done."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).resolve().parent / "data"


def cache_dir(root: Path = ROOT) -> Path:
    """The tool's own folder for what can be made again; created when missing."""
    folder = root / ".cache" / "steps"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_atomically(path: Path, data: str | bytes) -> None:
    """Write to a temporary name beside `path`, then rename, so that a reader sees old or new."""
    write_all({path: data})


def write_all(contents: Mapping[Path, str | bytes]) -> None:
    """Write several files; no name changes before the content of all of them is on disk."""
    drafts: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            drafts[path] = _draft(path, data.encode() if isinstance(data, str) else data)
        for path, draft in drafts.items():
            os.replace(draft, path)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def sha256(data: bytes) -> str:
    """Hex digest of `data`."""
    return hashlib.sha256(data).hexdigest()


def shown(path: Path, root: Path) -> str:
    """`path` as a person would type it from `root`, where it lies below it."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _draft(path: Path, data: bytes) -> Path:
    """A temporary file beside `path` with this content and the mode that `path` is to have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        draft.chmod(_mode(path))
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def _mode(path: Path) -> int:
    """The mode of the file that is replaced; mkstemp's own 0600 would lock others out."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
