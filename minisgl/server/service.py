"""One server from its port to its end: who starts, who is watched, who stops when."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import uvicorn

from minisgl.message import BaseFrontendMsg, BaseTokenizerMsg
from minisgl.utils import ZmqAsyncPullQueue, ZmqAsyncPushQueue, init_logger

from .asgi import Gate
from .connection import make_protocol
from .frontend import FrontendManager
from .workers import WorkerError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from .args import ServerArgs
    from .workers import Workers

logger = init_logger("minisgl.server")

Shell = Callable[[FrontendManager], Awaitable[None]]

FAREWELL = 1.5
"""Seconds for which a server that has failed still says so, before it ends."""
POLL = 0.2
"""Seconds between two looks at the workers, and at what still runs."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, and say where."""
        await super().startup(sockets)
        for sock in sockets or []:
            host, port = sock.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            logger.info("ready at %s (API: /docs; Ctrl-C stops it)", url)


def bind(config: ServerArgs) -> socket.socket:
    """Return a socket at the server's address; raises WorkerError when that can't be had."""
    where = f"{config.server_host}:{config.server_port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.server_host, config.server_port, type=socket.SOCK_STREAM
        )[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(1)  # so that a second server is refused now, and not after loading its model
    except OSError as error:
        why = error.strerror or str(error)
        raise WorkerError(
            f"can't listen at {where}: {why.lower()}; choose another with --host and --port"
        ) from None
    return sock


def make_state(config: ServerArgs) -> FrontendManager:
    """Return the API's side of the queues; made inside the loop that is to use it."""

    def push(address: str, binds: bool) -> ZmqAsyncPushQueue[BaseTokenizerMsg]:
        return ZmqAsyncPushQueue(address, binds, BaseTokenizerMsg.encoder)

    is_shared = config.share_tokenizer
    return FrontendManager(
        config=config,
        send_tokenizer=push(config.zmq_tokenizer_addr, config.frontend_create_tokenizer_link),
        recv_tokenizer=ZmqAsyncPullQueue(config.zmq_frontend_addr, True, BaseFrontendMsg.decoder),
        send_detokenizer=None if is_shared else push(config.zmq_detokenizer_addr, False),
    )


class Service:
    """Runs the API and its workers. set_state is told what the routes work on."""

    def __init__(
        self, config: ServerArgs, app: FastAPI, set_state: Callable[[FrontendManager], None]
    ) -> None:
        self.config, self.app, self.set_state = config, app, set_state

    def run(self, start_backend: Callable[[], Workers], shell: Shell | None = None) -> None:
        """Serve until a signal or, with a shell, until that returns."""
        began = time.monotonic()
        sock = None if shell else bind(self.config)
        workers = start_backend()
        try:
            names = ", ".join(f"{name} ({p.pid})" for name, p in workers.processes.items())
            logger.info("loading %s; processes: %s", self.config.model_path, names)
            for ack in workers.wait_until_ready():
                logger.info("%s after %.1f s", ack, time.monotonic() - began)
            asyncio.run(self._run(workers, sock, shell))
        finally:
            workers.stop()
            if sock is not None:
                sock.close()
                logger.info("stopped")

    async def _run(
        self, workers: Workers, sock: socket.socket | None, shell: Shell | None
    ) -> None:
        state = make_state(self.config)
        self.set_state(state)
        listener = asyncio.create_task(state.listen())
        watcher = asyncio.create_task(_watch(workers, listener))
        try:
            if shell is not None:
                await _first(shell(state), watcher)
            else:
                assert sock is not None, "a server that is no shell has a socket"
                await self._serve(state, watcher, sock)
        finally:
            for task in (listener, watcher):
                task.cancel()
            await asyncio.gather(listener, watcher, return_exceptions=True)
            state.shutdown()

    async def _serve(
        self, state: FrontendManager, watcher: asyncio.Task[str], sock: socket.socket
    ) -> None:
        """Serve HTTP; ends on a signal after the grace, or raises WorkerError for a dead worker."""
        web = init_logger("uvicorn")  # the parent of its loggers, whose lines then look like ours
        # its own start and end need no lines beside ours
        logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, web.level))
        server = _Server(
            uvicorn.Config(
                Gate(self.app, self.config),
                http=make_protocol(self.config.request_timeout),
                ws="none",
                log_config=None,
                timeout_graceful_shutdown=2,
            )
        )
        signals = _signals()
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        stop = asyncio.create_task(signals.get())
        await asyncio.wait((serving, watcher, stop), return_when=asyncio.FIRST_COMPLETED)
        cause = watcher.result() if watcher.done() else None
        if cause is not None:
            logger.error("%s", cause)
            state.fail(cause)
            await asyncio.sleep(FAREWELL)
        elif stop.done():
            await self._wait_for_requests(state, signals)
        stop.cancel()
        server.should_exit = True
        await serving
        if cause is not None:
            raise WorkerError(cause)

    async def _wait_for_requests(
        self, state: FrontendManager, signals: asyncio.Queue[int]
    ) -> None:
        """Take no new requests; give the running ones their grace, until a second signal."""
        state.is_stopping = True
        grace = self.config.shutdown_grace
        if state.ack_map:
            said = "stopping; running requests: %d, for %g s at most; Ctrl-C again ends them now"
            logger.info(said, len(state.ack_map), grace)
        end = time.monotonic() + grace
        while state.ack_map and time.monotonic() < end and signals.empty():
            await asyncio.sleep(POLL)
        state.fail("the server is shutting down")


def _signals() -> asyncio.Queue[int]:
    """Return where SIGTERM and SIGINT go from now on."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    return signals


async def _watch(workers: Workers, listener: asyncio.Task[None]) -> str:
    """Return what answers are no longer to be expected from, once that is so, and why."""
    while (cause := workers.dead()) is None:
        if listener.done():
            return f"the API server hears no replies any more: {listener.exception()!r}"
        await asyncio.sleep(POLL)
    return cause


async def _first(chat: Awaitable[None], watcher: asyncio.Task[str]) -> None:
    """Return at the chat's end, which SIGTERM brings too; raises WorkerError for a dead worker."""
    task = asyncio.ensure_future(chat)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
    is_over = task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    if not is_over:
        raise WorkerError(watcher.result())
