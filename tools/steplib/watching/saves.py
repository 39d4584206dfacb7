"""Tells when something in a folder may have changed: by the system's word, or by looking."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from steplib import mine
from steplib.paths import sha256

QUIET, LONGEST = 0.1, 0.5
"""A save is over when nothing has changed for QUIET s, and at the latest after LONGEST s."""
_LOOK_EVERY = 0.3
_CHANGES = ("created", "modified", "moved", "deleted", "closed")  # and not: opened, only read

Snapshot = dict[str, str]


def snapshot(folder: Path) -> Snapshot:
    """The sha256 of each file that a check would read, by path."""
    found = {}
    for path in mine.present(folder):
        try:
            found[path] = sha256((folder / path).read_bytes())
        except OSError:  # it went away, or can't be read; the check says so
            found[path] = ""
    return found


class Observed:
    """Calls `wake` when the system says that something changed, by watchdog."""

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        from watchdog.events import FileSystemEventHandler
        from watchdog.observers import Observer

        class _Handler(FileSystemEventHandler):
            def on_any_event(handler, event: Any) -> None:  # self is the observer
                if event.event_type == "deleted" and event.src_path == str(folder):
                    self._watched = None
                if event.event_type in _CHANGES:
                    wake()

        self._folder, self._wake, self._handler = folder, wake, _Handler()
        self._observer, self._ended = Observer(), threading.Event()
        self._watched: tuple[int, int] | None = self._identity()
        self._observer.schedule(self._handler, str(folder), recursive=True)
        self._observer.start()
        self._thread = threading.Thread(target=self._stay, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._observer.stop()
        self._observer.join()

    def _stay(self) -> None:
        """Of a folder that was removed and made again the system tells nothing; watch the new."""
        while not self._ended.wait(_LOOK_EVERY):
            now = self._identity()
            if now is None:
                self._watched = None  # the next one may get the same number
            if now is None or now == self._watched:
                continue
            with suppress(OSError):  # it is gone again; the next look sees
                self._observer.unschedule_all()
                self._observer.schedule(self._handler, str(self._folder), recursive=True)
                self._watched = now
            self._wake()

    def _identity(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._folder)
        except OSError:
            return None
        return stat.st_dev, stat.st_ino


class Polled:
    """Calls `wake` when a look at the folder shows another size, time or name than before."""

    def __init__(self, folder: Path, wake: Callable[[], None], every: float = _LOOK_EVERY) -> None:
        self._folder, self._wake, self._every = folder, wake, every
        self._ended = threading.Event()
        self._seen = list(self._stats())
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(self._every):
            if (seen := list(self._stats())) != self._seen:
                self._seen = seen
                self._wake()

    def _stats(self) -> Iterator[tuple[str, int, int, int]]:
        for path in mine.present(self._folder):
            try:
                stat = os.stat(self._folder / path)
            except OSError:
                continue
            yield path, stat.st_ino, stat.st_size, stat.st_mtime_ns


def observe(folder: Path, wake: Callable[[], None], poll: bool) -> Observed | Polled:
    """By the system's word where it gives it; a missing watchdog or a full table means looking."""
    if not poll:
        try:
            return Observed(folder, wake)
        except (ImportError, OSError, RuntimeError):
            pass
    return Polled(folder, wake)


class Settling:
    """Makes one of the many changes of one save: an editor writes, renames and writes again."""

    def __init__(self) -> None:
        self.first = self.last = 0.0

    def put(self) -> None:
        """Something changed just now."""
        self.last = time.monotonic()
        self.first = self.first or self.last

    @property
    def left(self) -> float | None:
        """Seconds until the save counts as over; None where nothing has changed."""
        if not self.first:
            return None
        return max(0.0, min(self.last + QUIET, self.first + LONGEST) - time.monotonic())

    def take(self) -> bool:
        """Whether a save is over, which then is forgotten."""
        if self.left != 0.0:
            return False
        self.first = self.last = 0.0
        return True
