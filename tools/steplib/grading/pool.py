"""Workers side by side: a task that breaks its worker costs that task alone."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from steplib.process import environment, kill_group

_WORKER = Path(__file__).with_name("worker.py")
_SLOTS = 4000
Task = dict[str, Any]
Answer = dict[str, Any]


class Pool:
    """Runs tasks in `jobs` worker processes. Use it as a context manager."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.first_slot = secrets.randbelow(_SLOTS)  # two gradings at once are other users
        self.workers: list[_Worker] = []
        self.mine = threading.local()
        self.lock = threading.Lock()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()

    def run(
        self, tasks: list[Task], limit: float, on_answer: Callable[[Task, Answer], None]
    ) -> None:
        """Do all tasks; each answer is told as it comes, in one thread at a time."""

        def one(task: Task) -> None:
            answer = self._worker().ask(task, limit)
            with self.lock:
                on_answer(task, answer)

        with ThreadPoolExecutor(max_workers=self.jobs) as threads:
            try:
                for done in [threads.submit(one, task) for task in tasks]:
                    done.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in self.workers:
                    worker.stop()
                raise

    def _worker(self) -> _Worker:
        if not hasattr(self.mine, "worker"):
            with self.lock:
                self.mine.worker = _Worker((self.first_slot + len(self.workers)) % _SLOTS)
                self.workers.append(self.mine.worker)
        worker: _Worker = self.mine.worker
        return worker


class _Worker:
    """One worker process, started when it is first asked and after it broke."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.child: subprocess.Popen[bytes] | None = None

    def ask(self, task: Task, limit: float) -> Answer:
        """The answer: "done", "refused" or "failed" with what it is."""
        child, until = self._started(), time.monotonic() + limit
        assert child.stdin is not None
        raw = bytearray()
        try:
            child.stdin.write(json.dumps(task).encode() + b"\n")
            child.stdin.flush()
            while not raw.endswith(b"\n"):
                left = until - time.monotonic()
                if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                    self.stop()
                    return {"failed": f"it took more than {limit:g} s"}
                if not (piece := os.read(self.answers, 1 << 16)):
                    raise BrokenPipeError
                raw += piece
        except (BrokenPipeError, ValueError):
            self.stop()
            return {"failed": "the process that graded it ended"}
        answer: Answer = json.loads(raw)
        return answer

    def stop(self) -> None:
        """End the worker; its sandboxes end with it."""
        if self.child is not None:
            child, self.child = self.child, None
            kill_group(child.pid)
            child.wait()
            os.close(self.answers)
            assert child.stdin is not None
            child.stdin.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self.child is None or self.child.poll() is not None:
            self.stop()
            self.answers, write = os.pipe()
            self.child = subprocess.Popen(
                [sys.executable, "-I", str(_WORKER), str(write), str(self.slot)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(write,),
                env={**os.environ, **environment()}, start_new_session=True,
            )  # fmt: skip
            os.close(write)
        return self.child
