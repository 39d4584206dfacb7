"""Where things lie, and how a file is written so that it is never seen half-done."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from steplib.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).resolve().parent / "data"

_NOT_THERE = {errno.ENOENT, errno.EEXIST, errno.ELOOP, errno.EINVAL, errno.EIO, errno.ENXIO,
              errno.ENODEV, errno.EBUSY, errno.ETXTBSY, errno.ENOTSUP}  # fmt: skip
"""What a place can be refused with beside what cli.py explains: no access, no space, no folder."""


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
        for path, text in contents.items():
            data = text.encode() if isinstance(text, str) else text
            with writing(path):
                if _is_device(path):
                    path.write_bytes(data)
                else:
                    drafts[path] = _draft(path, data)
        for path, draft in drafts.items():
            with writing(path):
                os.replace(draft, path)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """The folder, and those around it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """One sentence for a place where no file or folder can be made, such as one below /proc."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        why = os.strerror(error.errno or 0).lower()
        raise UserError(f"{path} can't be written ({why}); name another place.") from None


def _is_device(path: Path) -> bool:
    """/dev/stdout, a pipe, a terminal: written into, for a file in its place would break it."""
    if path.absolute().is_relative_to("/dev"):
        return path.exists()
    return path.exists() and not (path.is_file() or path.is_dir())


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
