"""The processes behind the API: started together, watched, and stopped together."""

from __future__ import annotations

import logging
import multiprocessing as mp
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, NoReturn

from minisgl.message import BaseBackendMsg, ExitMsg
from minisgl.utils import ZmqPushQueue, init_logger

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from .args import ServerArgs

logger = init_logger(__name__)

FAILED = "failed: "
"""How a worker's message begins that says why it can't start."""
STOP_TIMEOUT = 3.0
"""Seconds for a worker to stop when it is asked, and again when it is told."""


class WorkerError(Exception):
    """A worker could not start or has died: which, and why."""


class AckQueue:
    """A worker's end of a pipe to the server, for what it says once it is ready."""

    def __init__(self, connection: Connection[str, str]) -> None:
        self._connection = connection

    def put(self, ack: str) -> None:
        """Say something."""
        self._connection.send(ack)


@contextmanager
def private_folder(args: ServerArgs) -> Iterator[ServerArgs]:
    """Yield args with a new folder for sockets, which nobody else may enter and which is removed.

    Raises WorkerError where its path is too long for a socket's name.
    """
    folder = tempfile.mkdtemp(prefix="minisgl-server-")  # with mode 0700
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
        self.processes: dict[str, BaseProcess] = {}
        self._acks: dict[str, Connection[str, str]] = {}
        context = mp.get_context("spawn")
        for name, task in tasks.items():
            self._acks[name], its_end = context.Pipe(duplex=False)
            self.processes[name] = context.Process(
                target=_run_worker, args=(name, task, args, AckQueue(its_end)), name=name
            )
            with _without_ctrl_c():
                self.processes[name].start()
            its_end.close()  # so that this end hears when the worker's is gone

    def wait_until_ready(self) -> Iterator[str]:
        """Yield what each worker says once it is ready; raises WorkerError when one fails."""
        left = dict(self._acks)
        while left:
            ready = wait(left.values())
            for name in [name for name, connection in left.items() if connection in ready]:
                del left[name]
                if not (said := self._said(name)) or said.startswith(FAILED):
                    self.processes[name].join(STOP_TIMEOUT)
                    raise WorkerError(self._death(name, said))
                yield said

    def _said(self, name: str) -> str:
        """Return what a worker has said since the last look, "" for nothing."""
        try:
            return self._acks[name].recv() if self._acks[name].poll() else ""
        except EOFError:
            return ""

    def _death(self, name: str, said: str) -> str:
        if said:
            return f"the {name} {said.removeprefix(FAILED)}"
        process = self.processes[name]
        code = process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
        return f"the {name} (process {process.pid}) has died with {how}"

    def dead(self) -> str | None:
        """Return which worker has died and why, as a sentence; None while all run."""
        for name, process in self.processes.items():
            if process.exitcode is not None:
                return self._death(name, self._said(name))
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
        for connection in self._acks.values():
            connection.close()


def _join(processes: list[BaseProcess]) -> None:
    end = time.monotonic() + STOP_TIMEOUT
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that a Ctrl-C doesn't stop before they have said how they take it."""
    resource_tracker.ensure_running()  # which would end what follows
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(
    name: str, task: Callable[..., None], args: ServerArgs, acks: AckQueue
) -> None:
    """What a new process runs. Ctrl-C in a terminal reaches it too, but is for the server alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(args.socket_folder,), daemon=True).start()
    try:
        task(args, acks)
    except Exception as error:
        logger.debug("the %s stops", name, exc_info=True)
        why = str(error).partition("\n")[0]  # what follows may be advice, or a list
        acks.put(f"{FAILED}can't go on: {type(error).__name__}: {why}")
        end_process(1)
    end_process(0)


def end_process(status: int) -> NoReturn:
    """End this process at once: Python would first take PyTorch down, which takes a second."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _end_with_parent(folder: str) -> None:
    """End this process once the one that started it has gone, however it went."""
    parent = mp.parent_process()
    assert parent is not None, "a worker is started by a server"
    wait([parent.sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
