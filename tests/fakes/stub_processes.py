"""Threads in place of a server's processes, so that a test can start, end and watch them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any
from unittest import mock

from stub_frontend import script


class Ended(BaseException):
    """What os._exit(status) raises instead of ending the tests."""


def leave(status: int) -> None:
    """In place of os._exit."""
    raise Ended(status)


class ThreadProcess:
    """A process that is a thread. is_deaf: it doesn't end when it is told to, unless killed."""

    def __init__(
        self, world: World, target: Callable[..., None], args: tuple[Any, ...], name: str
    ) -> None:
        self.world, self.name, self.exitcode = world, name, None
        self.is_deaf = name in world.deaf
        self.pid = 1000 + len(world.processes)
        self.is_over = threading.Event()
        self._target, self._args = target, tuple(map(_sent, args))

    def start(self) -> None:
        self.world.processes.append(self)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        status = 0
        try:
            self._target(*self._args)
        except Ended as end:
            [status] = end.args
        finally:
            self.end(status)

    def end(self, status: int) -> None:
        """End with this status, negative for a signal, and close its pipe as a process does."""
        if not self.is_over.is_set():
            self.exitcode = status
            self.world.said.append(f"{self.name} ends with {status}")
            self._args[-1]._connection.close()
            self.is_over.set()

    def terminate(self) -> None:
        self.world.said.append(f"{self.name} is told")
        if not self.is_deaf:
            self.end(-15)

    def kill(self) -> None:
        self.world.said.append(f"{self.name} is killed")
        self.end(-9)

    def join(self, timeout: float | None = None) -> None:
        self.world.is_awaited.set()
        self.is_over.wait(timeout)

    def is_alive(self) -> bool:
        return not self.is_over.is_set()


def _sent(value: Any) -> Any:
    """What another process gets: its own copy of a pipe's end."""
    if not hasattr(value, "_connection"):
        return value
    return type(value)(_OwnEnd(os.dup(value._connection.fileno()), readable=False))


class _OwnEnd(Connection):
    """A thread's end of a pipe, never closed by another thread while it is written to.

    Else what is written may end up in the next pipe that gets the same number.
    """

    def __init__(self, handle: int, readable: bool) -> None:
        self._lock = threading.Lock()
        super().__init__(handle, readable=readable)

    def send(self, obj: Any) -> None:
        with self._lock:
            super().send(obj)

    def close(self) -> None:
        with self._lock:
            super().close()


class World:
    """What multiprocessing is to the server.

    said: what has happened to its processes. exits: statuses with which os._exit was called.
    is_awaited: set once somebody has waited for a process's end.
    """

    lives: list[Any] = []  # never closed by chance: a worker ends when its parent has gone

    def __init__(self, deaf: tuple[str, ...]) -> None:
        self.deaf, self.said = deaf, list[str]()
        self.processes: list[ThreadProcess] = []
        self.exits: list[int] = []
        self.is_awaited = threading.Event()
        self._parent, self._parents_life = Pipe()
        self.lives.append(self._parents_life)

    def leave(self, status: int) -> None:
        """In place of os._exit."""
        self.exits.append(status)
        leave(status)

    def get_context(self, kind: str) -> World:
        assert kind == "spawn", "a forked process would share the server's sockets"
        return self

    def Process(self, target: Any, args: Any, name: str) -> ThreadProcess:
        return ThreadProcess(self, target, args, name)

    def Pipe(self, duplex: bool) -> Any:
        return Pipe(duplex)

    def parent_process(self) -> Any:
        return SimpleNamespace(sentinel=self._parent)

    def end_parent(self) -> None:
        """Let the process that started the others be gone."""
        self._parents_life.close()


@contextmanager
def threads_for_processes(*deaf: str, patience: float = 0.3) -> Iterator[World]:
    """Workers start threads; those named in deaf don't hear when they are told to end."""
    from minisgl.server import workers

    world = World(deaf)
    with (
        mock.patch.object(workers, "mp", world),
        mock.patch.object(workers, "STOP_TIMEOUT", patience),
        mock.patch.object(workers.os, "_exit", world.leave),
        mock.patch.object(workers.signal, "signal", lambda *_: None),
        mock.patch.object(workers.logging, "shutdown", lambda *_: None),
        mock.patch.object(threading, "excepthook", lambda _: None),
    ):
        try:
            yield world
        finally:
            for process in world.processes:
                process.end(-9)


def scheduler(args: Any, acks: Any) -> None:
    """A worker that is ready, and ends when it is asked."""
    from minisgl.message import BaseBackendMsg, ExitMsg
    from minisgl.utils import ZmqPullQueue

    queue = ZmqPullQueue(args.zmq_backend_addr, True, BaseBackendMsg.decoder)
    acks.put("scheduler is ready")
    while not isinstance(queue.get(), ExitMsg):
        pass
    queue.stop()


def tokenizer(args: Any, acks: Any, answers: Callable[[Any], list[Any]] = script) -> None:
    """A worker that answers as a script says, until its queue is told to end."""
    from minisgl.message import BaseFrontendMsg, BaseTokenizerMsg
    from minisgl.utils import ZmqPullQueue, ZmqPushQueue

    queue = ZmqPullQueue(args.zmq_tokenizer_addr, True, BaseTokenizerMsg.decoder)
    replies = ZmqPushQueue(args.zmq_frontend_addr, False, BaseFrontendMsg.encoder)
    acks.put("tokenizer is ready")
    while True:
        for reply in answers(queue.get()):
            replies.put(reply)


def idle(args: Any, acks: Any) -> None:
    """A worker that is ready, and stays until it is told or killed."""
    acks.put("idle is ready")
    threading.Event().wait(60)
