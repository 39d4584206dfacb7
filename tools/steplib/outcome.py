"""A child's job, the records it sends, and the one name for how it ended."""

from __future__ import annotations

import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steplib.jobs import CUT

Record = dict[str, Any]
START_LIMIT = 60.0
"""Seconds that a child may take to come up on a busy machine."""

Ending = Literal["done", "crashed", "timed out", "no record", "forged"]


@dataclass(frozen=True)
class Job:
    """One job of a child. body: what jobs.py expects for this kind.

    ended: once it is set, the runner ends the job, however far it has come.
    """

    kind: Literal["main", "generate", "probes"]
    tree: Path
    scratch: Path
    root: Path
    body: dict[str, Any]
    coverage: bool = False
    second_process: bool = False
    ended: threading.Event = field(default_factory=threading.Event, compare=False)

    def message(self, fd: int, nonce: str) -> bytes:
        """The line that tells a child what to do."""
        places = {
            name: os.path.realpath(getattr(self, name)) for name in ("tree", "scratch", "root")
        }
        flags = {"coverage": self.coverage, "second_process": self.second_process}
        whole = {"kind": self.kind, "fd": fd, "nonce": nonce, **places, **flags, **self.body}
        return json.dumps(whole).encode() + b"\n"


@dataclass
class Outcome:
    """How a job ended. Only "done" means that it came to its end; it is no verdict yet."""

    ending: Ending
    detail: str
    records: list[Record] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0

    def of_kind(self, kind: str) -> list[Record]:
        """The records of one kind, in order."""
        return [record for record in self.records if record["kind"] == kind]

    @property
    def end(self) -> Record:
        """The last record: modules loaded, violations, executed lines; empty when it is missing."""
        return next(iter(self.of_kind("end")), {"modules": {}, "violations": [], "lines": {}})


@dataclass
class Inbox:
    """The records of one job so far, and whether any came without the job's secret."""

    nonce: str
    on_record: Callable[[Record], None] | None
    records: list[Record] = field(default_factory=list)
    is_forged: bool = False
    since: float = field(default_factory=time.monotonic)
    has_started: bool = False

    def left(self, limit: float) -> float:
        """Seconds until the job is late; coming up is not counted against its limit."""
        allowed = limit if self.has_started else max(limit, START_LIMIT)
        return self.since + allowed - time.monotonic()

    def put(self, lines: bytes) -> None:
        """Take in record lines; each "start" sets the clock of the time limit back."""
        for line in lines.splitlines():
            if line.endswith(CUT):
                continue
            record = self.checked(line)
            if record is None:
                self.is_forged = True
                continue
            if record["kind"] == "start":
                self.since, self.has_started = time.monotonic(), True
            self.records.append(record)
            if self.on_record:
                self.on_record(record)

    def checked(self, line: bytes) -> Record | None:
        """The record on this line; None when it isn't one that carries the secret."""
        try:
            record = json.loads(line)
            if secrets.compare_digest(record.pop("nonce"), self.nonce) and "kind" in record:
                return dict(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        return None

    def outcome(self, status: int | None, limit: float, text: tuple[str, str]) -> Outcome:
        """The one final word on how the job ended. status: None when it was stopped for time."""
        ending, detail = _ending(self, status, limit)
        if ending == "crashed" and (last := text[1].strip().splitlines()):
            detail += f"; the last line it printed to stderr: {last[-1][:200]}"
        return Outcome(ending, detail, self.records, *text)


def _ending(inbox: Inbox, status: int | None, limit: float) -> tuple[Ending, str]:
    if inbox.is_forged:
        return "forged", "a record came that doesn't carry this run's secret"
    if status is None:
        return "timed out", f"timed out after {limit:g} s"
    if status < 0:
        return "crashed", f"the process was killed by {_signal_name(-status)}"
    if status > 0:
        return "crashed", f"the process left with exit code {status}"
    if not any(record["kind"] == "end" for record in inbox.records):
        return "no record", "the process left with exit code 0 before its work was done"
    return "done", ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
