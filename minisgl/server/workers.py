"""The processes behind the API: started together, watched, and stopped together."""

from __future__ import annotations

import multiprocessing as mp
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from minisgl.message import BaseBackendMsg, ExitMsg
from minisgl.utils import ZmqPushQueue, init_logger

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from .args import ServerArgs

logger = init_logger(__name__)

FAILED = "failed: "
"""How a worker's message begins that says why it can't start."""
STOP_TIMEOUT = 3.0
"""Seconds for a worker to stop when it is asked, and again when it is told."""


class WorkerError(Exception):
    """A worker could not start or has died: which, and why."""


@contextmanager
def private_folder(args: ServerArgs) -> Iterator[ServerArgs]:
    """Yield args with a new folder for sockets, which nobody else may enter and which is removed.

    Raises WorkerError where its path is too long for a socket's name.
    """
    folder = tempfile.mkdtemp(prefix="minisgl-")  # with mode 0700
    try:
        if len(folder) > 80:
            raise WorkerError(
                f"the folder for temporary files has a path too long for sockets, {folder}; "
                "set TMPDIR to a short one"
            )
        yield replace(args, socket_folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Workers:
    """The scheduler and the tokenizers of one server.

    tasks: for each worker its name and what it runs, called with args and a queue; it puts one
    message there once it is ready. Each runs in a new process, which ends with this one.
    """

    def __init__(self, args: ServerArgs, tasks: dict[str, Callable[..., None]]) -> None:
        self.args = args
        context = mp.get_context("spawn")
        self._acks: Any = context.Queue()
        self.processes: dict[str, BaseProcess] = {
            name: context.Process(
                target=_run_worker, args=(name, task, args, self._acks), name=f"minisgl-{name}"
            )
            for name, task in tasks.items()
        }
        for process in self.processes.values():
            process.start()

    def wait_until_ready(self) -> Iterator[str]:
        """Yield what each worker says once it is ready; raises WorkerError when one fails."""
        for _ in self.processes:
            ack = self._next_ack()
            if ack.startswith(FAILED):
                raise WorkerError(ack.removeprefix(FAILED))
            yield ack

    def _next_ack(self) -> str:
        while True:
            try:
                ack: str = self._acks.get(timeout=0.2)
                return ack
            except queue.Empty:
                dead = self.dead()
            if dead:
                try:  # it may have said why just before
                    last: str = self._acks.get(timeout=0.2)
                    return last
                except queue.Empty:
                    raise WorkerError(dead) from None

    def dead(self) -> str | None:
        """Return which worker has died, as a sentence; None while all run."""
        for name, process in self.processes.items():
            if (code := process.exitcode) is not None:
                how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
                return f"the {name} (process {process.pid}) has died with {how}"
        return None

    def stop(self) -> None:
        """End all processes: the scheduler is asked, the others are told, who stays is killed."""
        schedulers = [p for name, p in self.processes.items() if name.startswith("scheduler")]
        others = [p for p in self.processes.values() if p not in schedulers]
        if all(process.is_alive() for process in schedulers):
            backend = ZmqPushQueue(self.args.zmq_backend_addr, False, BaseBackendMsg.encoder)
            backend.put(ExitMsg())
            backend.stop()
            _join(schedulers)
        for end in ("terminate", "kill"):
            for process in (*schedulers, *others):
                if process.is_alive():
                    getattr(process, end)()
            _join([*schedulers, *others])
        self._acks.close()
        self._acks.cancel_join_thread()


def _join(processes: list[BaseProcess]) -> None:
    end = time.monotonic() + STOP_TIMEOUT
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))


def _run_worker(name: str, task: Callable[..., None], args: ServerArgs, acks: Any) -> None:
    """What a new process runs. Ctrl-C in a terminal reaches it too, but is for the server alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(args.socket_folder,), daemon=True).start()
    try:
        task(args, acks)
    except Exception as error:
        logger.debug("the %s stops", name, exc_info=True)
        acks.put(f"{FAILED}the {name} can't go on: {type(error).__name__}: {error}")
        acks.close()
        acks.join_thread()
        sys.exit(1)


def _end_with_parent(folder: str) -> None:
    parent = mp.parent_process()
    assert parent is not None, "a worker is started by a server"
    wait([parent.sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
