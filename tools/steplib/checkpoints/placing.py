"""A checkpoint's folder appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from steplib.errors import UserError
from steplib.paths import ROOT, shown

_MEGABYTE = 1 << 20


@contextlib.contextmanager
def taking_turns(parent: Path) -> Iterator[None]:
    """One process at a time makes checkpoints in `parent`; another waits, and finds them made."""
    with disk_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which also unlocks


@contextlib.contextmanager
def placed(target: Path) -> Iterator[Path]:
    """A folder to write into, which takes `target`'s place when the block ends well.

    What an earlier, killed run has left there is thrown away first.
    """
    partial = target.parent / f".partial-{target.name}"
    with disk_errors(target):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    try:
        with disk_errors(target):
            yield partial
            replace_folder(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(new: Path, old: Path) -> None:
    """Put `new` where `old` was; at no moment is `old` half-written."""
    away = old.parent / f".partial-{old.name}-before"
    shutil.rmtree(away, ignore_errors=True)
    if old.exists():
        os.replace(old, away)
    os.replace(new, old)
    shutil.rmtree(away, ignore_errors=True)


@contextlib.contextmanager
def disk_errors(target: Path) -> Iterator[None]:
    """Turn a full disk or a forbidden folder into one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(_sentence(error, target)) from error


def _sentence(error: OSError, target: Path) -> str:
    place = shown(target, ROOT)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(_existing(target)).free // _MEGABYTE
        return (
            f"the disk is full ({free:,} MB free), so {place} was not written; "
            "make room and run this again."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{place} can't be written: permission denied; make it writable and run this again."
    reason = error.strerror or str(error).partition("\n")[0].rstrip(".")
    return f"{place} can't be written: {reason}; mend that and run this again."


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)
