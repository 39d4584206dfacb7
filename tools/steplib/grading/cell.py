"""A sandbox that has imported what is slow to import and forks for each job of one submission."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from steplib.errors import UserError
from steplib.grading.isolation import LIMITS, Sandbox
from steplib.grading.soundness import is_sound
from steplib.outcome import START_LIMIT, Inbox, Job, Outcome, Record
from steplib.process import OnRecord, environment, pipes_of, spawn, stop, tell
from steplib.warm import PRELOAD

OUTPUT_BYTES = 64 << 20
"""What a job may print and send, together."""

MARK = "HANDBOOK_CELL"
_USUAL = ("MKL", "OMP", "OPENBLAS", "NUMEXPR", "VECLIB", "HF_", "TOKENIZERS", "MINISGL")


@dataclass
class Budget:
    """Seconds that are left for one submission; coming up is not counted."""

    whole: float
    used: float = 0.0

    @property
    def left(self) -> float:
        return max(0.0, self.whole - self.used)


class Cell:
    """Runs jobs one after the other, as Warm does, and trusts nothing that comes out.

    A job that is late, or that prints without end, ends the sandbox; the next one gets a new one.
    """

    def __init__(
        self, sandbox: Sandbox, models: Path, budget: Budget, preload: tuple[str, ...] = PRELOAD
    ) -> None:
        usual = environment(models)
        kept = {name: value for name, value in usual.items() if name.startswith(_USUAL)}
        self.environment = {**kept, **sandbox.environment}
        self.sandbox, self.budget, self.preload = sandbox, budget, preload
        self.child: Popen[bytes] | None = None
        self.mark = secrets.token_hex(8)

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, job: Job, limit: float, on_record: OnRecord | None = None) -> Outcome:
        """Like Launcher.run; "timed out" at once when the submission's time is used up."""
        if self.budget.left <= 0:
            return Outcome("timed out", f"its {self.budget.whole:g} s were used up before")
        self._start()
        assert self.child is not None
        inbox, begun = _Inbox(secrets.token_hex(16), on_record), time.monotonic()
        tell(self.child, job.message(self.fd, inbox.nonce))
        status, why = self._follow(inbox, limit)
        outcome = inbox.outcome(status, limit, self.pump.take_text())
        if why and outcome.ending != "forged":
            outcome.ending, outcome.detail = "timed out" if status is None else "crashed", why
        outcome.seconds = time.monotonic() - begun
        self.budget.used += outcome.seconds
        if status is None or why or not self.sandbox.is_alone:
            self._end()
        return outcome

    def _start(self) -> None:
        if self.child is not None and self.child.poll() is None:
            return
        self._end()
        self.nonce = secrets.token_hex(16)
        self.records, self.fd = os.pipe()
        folder = Path("/tmp")
        environment = {**self.environment, MARK: self.mark}
        self.child = spawn(environment, folder, self.fd, inside=self.sandbox.command)
        self.pump = pipes_of(self.child, self.records)
        first = {"kind": "warm", "fd": self.fd, "nonce": self.nonce, "preload": self.preload,
                 "limits": LIMITS, "is_alone": self.sandbox.is_alone}  # fmt: skip
        tell(self.child, json.dumps(first).encode() + b"\n")
        inbox = _Inbox(self.nonce, None)
        while self.child.poll() is None and inbox.left(2 * START_LIMIT) > 0:
            inbox.put(self.pump.read(0.25))
            if inbox.records:
                return
        said = self.pump.take_text()[1][-300:]
        self._end()
        raise UserError(f"the sandbox didn't start: {said.strip() or 'it said nothing'}")

    def _follow(self, inbox: _Inbox, limit: float) -> tuple[int | None, str]:
        """The job's exit status, None when it took too long; and why it was ended, if it was."""
        assert self.child is not None
        own, until = _Inbox(self.nonce, None), time.monotonic() + START_LIMIT + self.budget.left
        taken = self.pump.taken
        while self.child.poll() is None and self.pump.is_open:
            for line in self.pump.read(0.1).splitlines(keepends=True):
                record = own.checked(line)
                if record is None:
                    inbox.put(line)
                elif record["kind"] == "exit":
                    return int(record["status"]), ""
            if self.pump.taken - taken > OUTPUT_BYTES:
                return 1, f"it printed more than {OUTPUT_BYTES >> 20} MB"
            if inbox.left(limit) <= 0:
                return None, ""
            if time.monotonic() > until:
                return None, f"its {self.budget.whole:g} s were used up"
        return -9, ""

    def _end(self) -> None:
        if self.child is not None:
            stop(self.child)
            if not self.sandbox.is_alone:
                end_strays(self.mark)
            os.close(self.records)
            self.child = None


def end_strays(mark: str) -> None:
    """Kill what left its process group, where no namespace does it; found by its environment."""
    wanted = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is gone, or another user's
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


class _Inbox(Inbox):
    """An inbox for records that may have been made to break their reader."""

    def checked(self, line: bytes) -> Record | None:
        try:
            record = super().checked(line)
        except RecursionError:
            return None
        return record if record is not None and is_sound(record) else None
