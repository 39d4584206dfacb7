"""One request on its way through the processes of a server, each of which has a lane.

Processes of one machine share the clock of time.perf_counter, so their spans fit together. What
minisgl runs is left as it is: in each process the functions that pack and unpack messages also
note the time.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.raw_client import stream_all
from figures.traces import LANES
from minisgl.message import BaseBackendMsg, BaseFrontendMsg, BaseTokenizerMsg, StatsMsg, StatsReply

if TYPE_CHECKING:
    from minisgl.server.args import ServerArgs
    from minisgl.server.workers import AckQueue

    Note = Callable[[str, str, float], None]
    """Told of a message: "in" or "out", its kind, and when it began to be unpacked or packed."""

QUESTION = "What is the capital of France?"
WARM_UP = 3
"""Requests before the one that counts."""
START_TIMEOUT = 120.0


class Lane:
    """What one process does, a line each in a file to which all processes append."""

    def __init__(self, file: Path, name: str) -> None:
        self._file, self._lane = file, {name: tid for tid, name in LANES.items()}[name]
        self._taken: tuple[str, float] | None = None

    def span(self, name: str, begin: float, end: float, **args: Any) -> None:
        """Note what was done from begin to end, in seconds of time.perf_counter."""
        times = {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
        event = {"ph": "X", "name": name, "pid": 1, "tid": self._lane, "args": args, **times}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def note(self, way: str, kind: str, begin: float) -> None:
        """Make a span of what was taken in and what then goes out for it."""
        if way == "in":
            self._taken = kind, begin
        elif self._taken is not None:
            taken, since = self._taken
            self._taken = None
            self.span(taken, since, time.perf_counter(), out=kind)

    def note_each(self, way: str, kind: str, begin: float) -> None:
        """Make a span of each message by itself."""
        name = "receive" if way == "in" else "send"
        self.span(name, begin, time.perf_counter(), message=kind)


def watch_messages(note: Note) -> None:
    """From now on note every message of a request that this process packs or unpacks."""
    for base in (BaseTokenizerMsg, BaseBackendMsg, BaseFrontendMsg):
        for name, way in (("decoder", "in"), ("encoder", "out")):
            setattr(base, name, staticmethod(_watched(getattr(base, name), note, way)))


def _watched(function: Callable[[Any], Any], note: Note, way: str) -> Callable[[Any], Any]:
    def watched(given: Any) -> Any:
        begin = time.perf_counter()
        made = function(given)
        for msg in _flat(made if way == "in" else given):
            if not isinstance(msg, StatsMsg | StatsReply):
                note(way, type(msg).__name__, begin)
        return made

    return watched


def _flat(msg: Any) -> Iterator[Any]:
    inner = getattr(msg, "data", None)
    yield from inner if isinstance(inner, list) else [msg]


def run_scheduler(args: ServerArgs, acks: AckQueue, file: Path) -> None:
    """The scheduler's process, without overlap: each token leaves right behind its batch."""
    from minisgl.env import ENV
    from minisgl.scheduler import Scheduler
    from minisgl.scheduler.scheduler import SchedulerExit
    from minisgl.utils.trace import TraceRecorder

    lane = Lane(file, "scheduler")
    watch_messages(lane.note_each)
    ENV.DISABLE_OVERLAP_SCHEDULING.value = True
    scheduler = Scheduler(args)
    scheduler.trace = trace = TraceRecorder(scheduler.device)
    start = time.perf_counter()
    acks.put("ready")
    try:
        scheduler.run_forever()
    except SchedulerExit:
        for event in trace.events():
            if event["ph"] == "X":
                begin = start + event["ts"] / 1e6
                lane = Lane(file, LANES[event["tid"]])
                lane.span(event["name"], begin, begin + event["dur"] / 1e6, **event["args"])
        scheduler.shutdown()


def run_detokenizer(args: ServerArgs, acks: AckQueue, file: Path) -> None:
    """The process that tokenizes and detokenizes."""
    from minisgl.server.launch import _run_tokenizer

    watch_messages(Lane(file, "detokenizer").note)
    _run_tokenizer(args, acks, tokenizer_id=-1)  # type: ignore[arg-type]


def run_server(args: ServerArgs, file: Path) -> None:
    """The API server's process, which starts the two others."""
    from minisgl.server import service
    from minisgl.server.api_server import app, set_global_state
    from minisgl.server.asgi import Gate
    from minisgl.server.workers import Workers, private_folder

    lane = Lane(file, "API server")

    class Watched(Gate):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def watched(message: Any) -> None:
                await send(message)
                if message.get("body"):
                    lane.note("out", "piece", 0.0)

            if scope["type"] == "http" and scope["method"] == "POST":
                lane.note("in", "request", time.perf_counter())
            await super().__call__(scope, receive, watched)

    watch_messages(lane.note)
    service.Gate = Watched  # type: ignore[attr-defined]
    tasks: dict[str, Callable[..., None]] = {
        "scheduler": partial(run_scheduler, file=file),
        "detokenizer": partial(run_detokenizer, file=file),
    }
    with private_folder(args) as args:
        service.Service(args, app, set_global_state).run(partial(Workers, args, tasks))


@contextmanager
def served(args: ServerArgs, file: Path) -> Iterator[None]:
    """A server for as long as the block runs; its spans are in file afterwards."""
    process = mp.get_context("spawn").Process(target=run_server, args=(args, file))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no server is left behind
    process.start()
    try:
        end = time.monotonic() + START_TIMEOUT
        while not _is_ready(args.server_port):
            if process.exitcode is not None or time.monotonic() > end:
                raise RuntimeError("the server did not start")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.join()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def record(folder: str, threads: int) -> list[dict[str, Any]]:
    """Serve the model in folder, ask it; return the last request's events, named lanes first.

    Times begin when the client sends it. The client's lane has the text that came at each time.
    """
    import torch

    from minisgl.distributed.info import DistributedInfo
    from minisgl.server.args import ServerArgs

    os.environ["OMP_NUM_THREADS"] = str(threads)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    args = ServerArgs(
        model_path=folder,
        tp_info=DistributedInfo(0, 1),
        dtype=torch.float32,
        max_running_req=16,
        num_page_override=4096,
        cache_type="naive",
        server_port=port,
        silent_output=True,
    )
    chat = [{"role": "user", "content": QUESTION}]
    body = {"model": folder, "messages": chat, "temperature": 0, "stream": True}
    body["stream_options"] = {"include_usage": True}
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "spans"
        with served(args, file):
            for _ in range(WARM_UP + 1):
                time.sleep(0.6)  # so that reports of how much there is to do come alike
                (stream,), _ = stream_all(port, "/v1/chat/completions", [body])
        client = Lane(file, "client")
        client.span("ask", stream.sent, stream.sent, out="request")
        for came, piece in zip(stream.came, stream.pieces, strict=True):
            if b'"delta"' in piece:  # a token's, and not the counts or the end
                client.span("take", came, came, text="".join(_texts(piece)))
        events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lanes = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}}
        for tid, name in LANES.items()
    ]
    start, end = stream.sent * 1e6, stream.came[-1] * 1e6
    mine = [event | {"ts": event["ts"] - start} for event in events if start <= event["ts"] <= end]
    return lanes + sorted(mine, key=lambda event: (event["ts"], event["tid"]))


def _texts(piece: bytes) -> Iterator[str]:
    """The text in a piece of a stream, event by event."""
    for line in piece.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line.removeprefix(b"data: "))["choices"]:
                yield choice["delta"].get("content") or ""
