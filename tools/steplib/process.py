"""Starting children, reading what they send, and naming how they ended."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from steplib.errors import UserError
from steplib.outcome import Inbox, Job, Outcome, Record
from steplib.pump import Pump

THREADS = 1
"""Threads of one child. Fixed, so that chapters side by side don't share cores or change sums."""

_CHILD = Path(__file__).with_name("child.py")
running: set[int] = set()
_halted = threading.Event()


def environment(models: Path | None = None, threads: int = THREADS) -> dict[str, str]:
    """The child's environment: fixed threads, no hub, none of the reader's own engine settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MINISGL_", "PYTHON"))}
    libraries = ("OMP", "MKL", "OPENBLAS", "VECLIB_MAXIMUM", "NUMEXPR")
    counts = {f"{name}_NUM_THREADS": str(threads) for name in libraries}
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**kept, **counts, **offline, **({"MINISGL_MODELS": str(models)} if models else {})}


OnRecord = Callable[[Record], None]


class Runner(Protocol):
    """Runs jobs: Launcher in fresh processes, Warm in forks."""

    def run(self, job: Job, limit: float, on_record: OnRecord | None = None) -> Outcome: ...


class Launcher:
    """Runs each job in a fresh process."""

    def __init__(
        self, models: Path | None = None, threads: int = THREADS, python: str = sys.executable
    ) -> None:
        self.environment, self.python = environment(models, threads), python

    def run(self, job: Job, limit: float, on_record: OnRecord | None = None) -> Outcome:
        """Run `job` in a child, which is stopped after `limit` s without a new "start" record."""
        begun = time.monotonic()
        inbox = Inbox(secrets.token_hex(16), on_record)
        read, write = os.pipe()
        child = spawn(self.environment, job.scratch, write, self.python)
        try:
            pump = pipes_of(child, read)
            tell(child, job.message(write, inbox.nonce))
            status = _follow(child, pump, inbox, limit, job.ended)
            outcome = inbox.outcome(status, limit, pump.take_text())
        finally:
            stop(child)
            os.close(read)
        outcome.seconds = time.monotonic() - begun
        return outcome


def spawn(
    environment: dict[str, str],
    folder: Path,
    write: int,
    python: str = sys.executable,
    inside: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """Start a child in its own process group; `write` is its end of the private pipe.

    inside: a command that runs the child in a sandbox.
    """
    pipe = subprocess.PIPE
    try:
        if _halted.is_set():
            raise UserError("the run was stopped.")
        child = subprocess.Popen(
            [*inside, python, "-I", "-u", str(_CHILD)],
            stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=folder,
            pass_fds=(write,), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise UserError(f"a child process can't be started: {error.strerror}.") from None
    finally:
        os.close(write)
    running.add(child.pid)
    return child


def pipes_of(child: subprocess.Popen[bytes], records: int) -> Pump:
    assert child.stdout is not None and child.stderr is not None
    return Pump(records, child.stdout.fileno(), child.stderr.fileno())


def tell(child: subprocess.Popen[bytes], message: bytes) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):  # it is gone already; its exit status says more
        child.stdin.write(message)
        child.stdin.flush()


def _follow(
    child: subprocess.Popen[bytes], pump: Pump, inbox: Inbox, limit: float, ended: threading.Event
) -> int | None:
    """Read until the child has ended; its exit status, or None when it is to be stopped."""
    while child.poll() is None:
        left = inbox.left(limit)
        if left <= 0 or ended.is_set():
            return None
        if pump.is_open:
            inbox.put(pump.read(min(left, 0.25)))
        else:
            with suppress(subprocess.TimeoutExpired):
                child.wait(min(left, 0.25))
    kill_group(child.pid)  # whatever it started and left behind holds the pipes open
    until = time.monotonic() + 5
    while pump.is_open and time.monotonic() < until:
        inbox.put(pump.read(0.25))
    return child.returncode


def stop(child: subprocess.Popen[bytes]) -> None:
    kill_group(child.pid)
    child.wait()
    running.discard(child.pid)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def stop_all() -> None:
    """Kill every running child with its process group: for Ctrl-C and errors elsewhere."""
    for pid in list(running):
        kill_group(pid)


def halt() -> None:
    """End every child and start no other: workers that go on now come to their end at once."""
    _halted.set()
    stop_all()
