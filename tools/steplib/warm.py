"""A process that has imported what is slow to import, and forks for each job."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

from steplib.errors import UserError
from steplib.outcome import Inbox, Job, Outcome, Record
from steplib.process import (
    THREADS,
    Launcher,
    OnRecord,
    Runner,
    environment,
    kill_group,
    pipes_of,
    running,
    spawn,
    stop,
    tell,
)

_KINDS = ("llama", "mistral", "qwen2", "qwen3")
PRELOAD = (
    "torch",
    "coverage",
    "safetensors.torch",
    "transformers.models.auto.tokenization_auto",
    *(f"transformers.models.{kind}.configuration_{kind}" for kind in _KINDS),
)
"""What engines import: about 4 s that each job of a fresh process spends again."""


class Warm:
    """One process that has imported what is slow to import and forks for each job, one at a time.

    Jobs run just as in a fresh process. Use it as a context manager.
    """

    def __init__(
        self, models: Path | None = None, preload: tuple[str, ...] = PRELOAD, threads: int = THREADS
    ) -> None:
        self.environment, self.preload = environment(models, threads), preload
        self.child: Popen[bytes] | None = None
        self.job: int | None = None

    def __enter__(self) -> Warm:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self) -> None:
        self.nonce = secrets.token_hex(16)
        self.records, self.fd = os.pipe()
        self.child = spawn(self.environment, Path.cwd(), self.fd)
        self.pump = pipes_of(self.child, self.records)
        first = {"kind": "warm", "fd": self.fd, "nonce": self.nonce, "preload": self.preload}
        tell(self.child, json.dumps(first).encode() + b"\n")
        for record in self._server_records(Inbox("", None), 120, threading.Event()):
            if record["kind"] == "ready":
                return
            if record["kind"] == "late":
                break
        raise UserError(f"the warm process didn't start: {self.pump.take_text()[1][-300:]}")

    def _end(self) -> None:
        if self.child is not None:
            self._stop_job()
            stop(self.child)
            os.close(self.records)
            self.child = None

    def run(self, job: Job, limit: float, on_record: OnRecord | None = None) -> Outcome:
        """Like Launcher.run, in a fork of the warm process."""
        if self.child is not None and self.child.poll() is not None:
            self._end()
        if self.child is None:
            self._start()
        assert self.child is not None
        begun = time.monotonic()
        inbox = Inbox(secrets.token_hex(16), on_record)
        tell(self.child, job.message(self.fd, inbox.nonce))
        status = self._follow_fork(inbox, limit, job.ended)
        outcome = inbox.outcome(status, limit, self.pump.take_text())
        outcome.seconds = time.monotonic() - begun
        return outcome

    def _follow_fork(self, inbox: Inbox, limit: float, ended: threading.Event) -> int | None:
        is_late, self.job = False, None
        for record in self._server_records(inbox, limit, ended):
            if record["kind"] == "started":
                self.job = record["pid"]
                running.add(record["pid"])
            elif record["kind"] == "late":
                is_late = True
                self._stop_job()
            elif record["kind"] == "exit":
                self._stop_job()
                return None if is_late else int(record["status"])
        self._end()
        return None if is_late else -signal.SIGKILL

    def _stop_job(self) -> None:
        if self.job is not None:
            kill_group(self.job)
            running.discard(self.job)

    def _server_records(
        self, inbox: Inbox, limit: float, ended: threading.Event
    ) -> Iterator[Record]:
        """The server's own records; the job's go to `inbox`. "late": it is to be stopped."""
        own = Inbox(self.nonce, None)
        while self.pump.is_open and self.child is not None and self.child.poll() is None:
            for line in self.pump.read(0.25).splitlines(keepends=True):
                if (record := own.checked(line)) is not None:
                    yield record
                else:
                    inbox.put(line)
            if inbox.left(limit) < 0 or ended.is_set():  # again and again, until it has ended
                yield {"kind": "late"}


class Crew:
    """A warm process for each thread that has jobs to run."""

    def __init__(self, models: Path | None = None) -> None:
        self.models, self.mine = models, threading.local()

    def run(self, job: Job, limit: float, on_record: OnRecord | None = None) -> Outcome:
        """Like Launcher.run, in a fork of this thread's warm process."""
        if not hasattr(self.mine, "warm"):
            self.mine.warm = Warm(self.models)
        outcome: Outcome = self.mine.warm.run(job, limit, on_record)
        return outcome


def quick_runner(models: Path | None = None) -> Runner:
    """Forks on Linux. Elsewhere fresh processes: macOS's own libraries don't like to be forked."""
    return Crew(models) if sys.platform == "linux" else Launcher(models)
