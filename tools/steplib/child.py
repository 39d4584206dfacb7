"""The program that runs code under test: `python -I child.py`, one JSON job a line on stdin.

Fresh: one job, then the process ends. Warm: import torch once, then fork for each job. Either way
records go through a private pipe; what is printed is only ever shown.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from steplib.apart import hide  # noqa: E402
from steplib.isolation import models_refused  # noqa: E402
from steplib.jobs import CUT, channel, run  # noqa: E402

del sys.path[0]


def main() -> None:
    """Read the first line and do what it says."""
    first = _next_line()
    assert first is not None
    if first["kind"] == "warm":
        serve(first)
    else:
        threading.Thread(target=_leave_with_parent, daemon=True).start()
        run(first, channel(first["fd"], first.pop("nonce")))


def _next_line() -> dict[str, Any] | None:
    """One job, read byte by byte so that nothing after it is swallowed; None at the end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            return None
        line += piece
    job: dict[str, Any] = json.loads(line)
    return job


def _leave_with_parent() -> None:
    """The parent holds our stdin open while it lives; its end must be ours too."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def serve(first: dict[str, Any]) -> None:
    """Import what is slow to import, then fork for each job and say how it ended."""
    with models_refused():
        for name in first["preload"]:
            __import__(name)
    if "limits" in first:
        _limit(first["limits"])
    hide(True)  # its memory holds the secrets of records
    send = channel(first["fd"], first["nonce"])
    send("ready")
    while (job := _next_line()) is not None:
        pid = os.fork()
        if pid == 0:
            _work(job, first["fd"])
        send("started", pid=pid)
        status = os.waitstatus_to_exitcode(_wait(pid))
        if first.get("is_alone"):
            _end_all_others()
        os.write(first["fd"], CUT + b"\n")  # else half a record would swallow the next one
        send("exit", status=status)


def _limit(limits: dict[str, int]) -> None:
    """No job can lift these; and when memory runs out all the same, the jobs are ended first."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, name), (limit, limit))


def _end_all_others() -> None:
    """Kill what a job left behind. Only as the first process of a namespace of our own."""
    if (os.getpid(), os.getppid()) in ((1, 0), (2, 1)):
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _work(job: dict[str, Any], fd: int) -> None:
    """In the forked child: a process group of its own, no stdin, and never back to the loop."""
    status = 1
    try:
        os.setsid()
        hide(False)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(job["scratch"])
        run(job, channel(fd, job.pop("nonce")))
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(pid: int) -> int:
    """The wait status of `pid`. Anything on stdin meanwhile is its end: the parent is gone."""
    pause = 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        if select.select([0], [], [], pause)[0]:
            os.kill(pid, signal.SIGKILL)
            os._exit(1)
        pause = min(2 * pause, 0.02)


if __name__ == "__main__":
    main()
