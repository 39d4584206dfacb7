"""Chapter 15: the processes of a server: started, watched and stopped together."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import logging
import os
import queue
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pairs import equal, error_of, public_bug, refused, truth
from stub_frontend import reply, script, stub_args
from stub_http import chat
from stub_processes import Ended, idle, leave, scheduler, threads_for_processes, tokenizer


def fails(args: Any, acks: Any) -> None:
    raise RuntimeError("no memory\nand advice")


def vanishes(args: Any, acks: Any, status: int = 3) -> None:
    raise Ended(status)


@contextmanager
def started(tasks: dict[str, Any], *deaf: str, patience: float = 0.3) -> Iterator[Any]:
    """The workers of these tasks, and the world that they live in."""
    from minisgl.server.workers import Workers, private_folder

    with (
        threads_for_processes(*deaf, patience=patience) as world,
        private_folder(stub_args()) as args,
    ):
        yield Workers(args, tasks), world


def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("it did not come to be")
        time.sleep(0.01)


def probe_all_say_when_they_are_ready(seed):
    go = threading.Event()

    def late(args: Any, acks: Any) -> None:
        go.wait(10)
        idle(args, acks)

    with started({"scheduler": late, "detokenizer": idle, "tokenizer 0": idle}) as (workers, _):
        ready = workers.wait_until_ready()
        early = [next(ready), next(ready)]
        before = [process.is_alive() for process in workers.processes.values()]
        go.set()
        return [early, list(ready), before, workers.dead(), list(workers.processes)]


def judge_all_say_when_they_are_ready(seed, got):
    early, late, alive, dead, names = got
    equal([early, late], [["idle is ready"] * 2, ["idle is ready"]], "who is ready says so")
    equal([alive, dead], [[True] * 3, None], "all run")
    equal(names, ["scheduler", "detokenizer", "tokenizer 0"], "names")


@public_bug("B95")
def probe_one_that_can_not_start_is_named_with_the_cause(seed):
    found = []
    for task in (fails, vanishes, *(partial(vanishes, status=status) for status in (-9, 0))):
        with started({"scheduler": task, "detokenizer": idle}) as (workers, _):
            found.append(error_of(lambda w=workers: list(w.wait_until_ready())))
    return found


def judge_one_that_can_not_start_is_named_with_the_cause(seed, got):
    failed, left, killed, done = got
    words = "the scheduler can't go on: RuntimeError: no memory"
    refused(failed, "a worker that fails", words, kind="WorkerError")
    truth("advice" not in failed["message"], "one sentence", failed)
    words = "the scheduler (process 1000) has died with"
    refused(left, "a worker that leaves", f"{words} status 3", kind="WorkerError")
    refused(done, "a worker that comes to its end", f"{words} status 0", kind="WorkerError")
    refused(killed, "a worker that is killed", f"{words} signal SIGKILL", kind="WorkerError")


def probe_one_that_dies_later_is_noticed(seed):
    found = []
    go = threading.Event()

    def later(args: Any, acks: Any) -> None:
        acks.put("ready")
        go.wait(10)
        raise ValueError("a wrong page")

    for how in ("kill", "fail"):
        with started({"detokenizer": idle, "scheduler": later}) as (workers, _):
            ready = len(list(workers.wait_until_ready()))
            before, process = workers.dead(), workers.processes["scheduler"]
            process.end(-9) if how == "kill" else go.set()
            process.join(10)
            found.append([ready, before, workers.dead()])
    return found


def judge_one_that_dies_later_is_noticed(seed, got):
    killed, failed = got
    equal(killed, [2, None, "the scheduler (process 1001) has died with signal SIGKILL"], "killed")
    equal(failed, [2, None, "the scheduler can't go on: ValueError: a wrong page"], "failed")


def lingering(args: Any, acks: Any) -> None:
    """A scheduler that, once it is asked to end, lives on until somebody waits for its end."""
    from minisgl.server import workers

    scheduler(args, acks)
    workers.mp.is_awaited.wait(10)


def probe_workers_stop_in_order(seed):
    tasks = {"detokenizer": idle, "scheduler": lingering}
    found = []
    for deaf in ((), ("detokenizer",), ("scheduler", "detokenizer")):
        now = {**tasks, "scheduler": idle} if "scheduler" in deaf else tasks
        with started(now, *deaf, patience=1.0 if deaf else 10.0) as (workers, world):
            list(workers.wait_until_ready())
            workers.stop()
            found.append([list(world.said), [p.is_alive() for p in workers.processes.values()]])
            closed = [connection.closed for connection in workers._acks.values()]
    with started(tasks, patience=8.0) as (workers, world):
        list(workers.wait_until_ready())
        workers.processes["scheduler"].end(-9)
        began = time.monotonic()
        workers.stop()
        took = time.monotonic() - began
        found.append([list(world.said), [p.is_alive() for p in workers.processes.values()]])
    return [found, closed, took]


def judge_workers_stop_in_order(seed, got):
    (asked, told, killed, dead), closed, took = got
    ends = ["scheduler ends with 0", "detokenizer is told"]
    equal(asked[0], [*ends, "detokenizer ends with -15"], "the scheduler is asked, then the rest")
    deaf = [*ends, "detokenizer is killed", "detokenizer ends with -9"]
    equal(told[0], deaf, "one that does not hear is killed")
    both = ["scheduler is told", "detokenizer is told", "scheduler is killed"]
    both += ["scheduler ends with -9", "detokenizer is killed", "detokenizer ends with -9"]
    equal(killed[0], both, "neither hears, and the scheduler does not answer")
    gone = ["scheduler ends with -9", "detokenizer is told", "detokenizer ends with -15"]
    equal(dead[0], gone, "a scheduler that is dead is not asked")
    truth(took < 7, "nor waited for", took)
    equal([each[1] for each in got[0]], [[False, False]] * 4, "who is left")
    equal(closed, [True, True], "the pipes are closed")


def probe_sockets_lie_in_a_private_folder(seed):
    from minisgl.server.workers import private_folder

    with tempfile.TemporaryDirectory() as base, mock.patch.object(tempfile, "tempdir", base):
        with private_folder(stub_args(server_port=7)) as args:
            folder = Path(args.socket_folder)
            mode = stat.S_IMODE(folder.stat().st_mode)
            inside = [str(folder.parent) == base, args.server_port]
            (folder / "frontend").touch()

        def breaks() -> None:
            with private_folder(stub_args()):
                raise KeyError("x")

        broken = [error_of(breaks), os.listdir(base)]
        long = Path(base) / ("x" * 70)
        long.mkdir()
        with mock.patch.object(tempfile, "tempdir", str(long)):
            refusal = error_of(lambda: private_folder(stub_args()).__enter__())
        return [oct(mode), inside, broken, refusal, os.listdir(long)]


def judge_sockets_lie_in_a_private_folder(seed, got):
    mode, inside, broken, refusal, left = got
    equal(mode, "0o700", "nobody else may enter")
    equal(inside, [True, 7], "it lies in the folder for temporary files; other settings stay")
    equal(broken[0]["kind"], "KeyError", "an error inside goes on")
    equal(broken[1], [], "what is left, after an error too")
    refused(refusal, "a path too long", "too long", "set TMPDIR", kind="WorkerError")
    equal(left, [], "what a refusal leaves")


def probe_a_worker_ends_as_its_task_does(seed):
    from minisgl.server import workers

    found = []
    ignored: list[list[int]] = []
    with tempfile.TemporaryDirectory() as folder, threads_for_processes() as world:
        args = stub_args(socket_folder=str(Path(folder) / "sockets"))
        Path(args.socket_folder).mkdir()
        note = mock.patch.object(
            workers.signal, "signal", lambda *a: ignored.append(list(map(int, a)))
        )
        for task in (lambda *_: None, fails):
            said: list[str] = []
            acks = SimpleNamespace(put=said.append)
            try:
                with note:
                    workers._run_worker("scheduler", task, args, acks)
            except Ended as end:
                found.append([*end.args, said])
        there = Path(args.socket_folder).is_dir()
        world.end_parent()
        until(lambda: len(world.exits) == 4)
        left = Path(args.socket_folder).is_dir()
    return [found, ignored, there, left, world.exits]


def judge_a_worker_ends_as_its_task_does(seed, got):
    found, ignored, there, left, exits = got
    equal(found[0], [0, []], "status and message of a task that returns")
    equal(found[1][0], 1, "status of one that fails")
    truth(found[1][1][0].startswith("failed: "), "it says that it failed", found[1][1])
    equal(ignored, [[signal.SIGINT, signal.SIG_IGN]] * 2, "Ctrl-C is for the server alone")
    equal([there, left], [True, False], "the folder stays as long as the server")
    equal(exits, [0, 1, 1, 1], "a worker whose server has gone ends as well")


def probe_each_worker_has_its_task(seed):
    from minisgl.scheduler.scheduler import SchedulerExit
    from minisgl.server import launch

    found: dict[str, Any] = {}
    tasks: list[Any] = []
    with mock.patch.object(launch, "Workers", lambda args, given: tasks.append(given)):
        for count in (0, 2):
            launch.start_workers(stub_args(num_tokenizer=count))
    found["names"] = [list(each) for each in tasks]

    told: list[dict[str, Any]] = []
    args = stub_args(num_tokenizer=2, socket_folder="/s")
    with mock.patch.object(launch, "tokenize_worker", lambda **given: told.append(given)):
        for given, names in (
            (stub_args(socket_folder="/s"), ["detokenizer"]),
            (args, list(tasks[1])[1:]),
        ):
            for name in names:
                tasks[1][name](given, "acks")
    found["tokenizers"] = told

    for rank in (0, 1):
        steps: list[Any] = []
        made = mock.Mock()
        made.sync_all_ranks = lambda steps=steps: steps.append("sync")
        made.run_forever = mock.Mock(side_effect=SchedulerExit)
        made.shutdown = lambda steps=steps: steps.append("shutdown")
        acks = SimpleNamespace(put=steps.append)
        from minisgl.distributed.info import DistributedInfo

        with mock.patch("minisgl.scheduler.Scheduler", lambda args, made=made: made):
            tasks[0]["scheduler"](stub_args(tp_info=DistributedInfo(rank, 2)), acks)
        found[f"rank {rank}"] = steps
    return found


def judge_each_worker_has_its_task(seed, got):
    names = ["scheduler", "detokenizer"]
    equal(got["names"], [names, [*names, "tokenizer 0", "tokenizer 1"]], "names of the workers")
    shared, detokenizer, *tokenizers = got["tokenizers"]
    for each in (shared, detokenizer):
        where = [each["addr"], each["create"], each["tokenizer_id"]]
        equal(where, ["ipc:///s/detokenizer", True, -1], "the detokenizer binds its address")
    for i, each in enumerate(tokenizers):
        where = [each["addr"], each["create"], each["tokenizer_id"]]
        equal(where, ["ipc:///s/tokenizer", False, i], "a tokenizer connects to the server's")
    for each in got["tokenizers"]:
        ends = [each["backend_addr"], each["frontend_addr"], each["tokenizer_path"]]
        equal(ends, ["ipc:///s/backend", "ipc:///s/frontend", "no/model"], "its other ends")
        equal(
            [each["ack_queue"], each["local_bs"]], ["acks", 128], "where it says that it is ready"
        )
    equal(got["rank 0"], ["sync", "scheduler is ready", "shutdown"], "the first rank")
    equal(got["rank 1"], ["sync", "shutdown"], "another one does not say that it is ready")


def launched(run: Callable[..., None], *words: str, **given: Any) -> list[Any]:
    """The status with which a server ends whose API is run, what it says, and its log level."""
    from minisgl.server import api_server, launch

    said, model = io.StringIO(), tempfile.mkdtemp()
    for name in ("config.json", "tokenizer.json"):
        (Path(model) / name).write_text("{}")
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (
            mock.patch.object(launch, "end_process", leave),
            mock.patch.object(api_server, "run_api_server", run),
            mock.patch.object(sys, "argv", ["minisgl", "--model", model, *words]),
            mock.patch.dict(os.environ),
            contextlib.redirect_stderr(said),
        ):
            os.environ.pop("MINISGL_LOG_LEVEL", None)
            try:
                launch.launch_server(**given)
            except Ended as end:
                return [*end.args, said.getvalue(), os.environ.get("MINISGL_LOG_LEVEL")]
    finally:
        signal.signal(signal.SIGTERM, before)
    return []


def probe_a_server_ends_with_a_status_and_a_sentence(seed):
    from minisgl.server.workers import WorkerError

    folders: list[str] = []
    given: list[list[Any]] = []

    def runs(args: Any, start: Any, chats: bool) -> None:
        folders.append(args.socket_folder)
        truth_of = [
            Path(args.socket_folder).is_dir(),
            args.server_port,
            start.args[0] is args,
            chats,
        ]
        given.append(truth_of)

    def breaks(args: Any, *_: Any) -> None:
        folders.append(args.socket_folder)
        raise WorkerError("the scheduler has died")

    def is_told(args: Any, *_: Any) -> None:
        folders.append(args.socket_folder)
        signal.raise_signal(signal.SIGTERM)

    ends = [
        launched(runs, "--port", "7"),
        launched(runs, "--shell"),
        launched(runs, run_shell=True),
    ]
    ends += [launched(breaks), launched(is_told)]
    return [ends, given, [folder for folder in folders if Path(folder).exists()]]


def judge_a_server_ends_with_a_status_and_a_sentence(seed, got):
    ends, given, left = got
    served, chatted, other, broken, told = ends
    equal(served, [0, "", None], "a server that ends well")
    equal([chatted, other], [[0, "", "WARNING"]] * 2, "a chat: its workers only warn")
    equal(
        given, [[True, 7, True, False], [True, 1919, True, True], [True, 1919, True, True]], "runs"
    )
    equal(broken[:2], [1, "error: the scheduler has died\n"], "status and sentence of a failure")
    equal(told[:2], [130, ""], "a signal while it starts")
    equal(left, [], "folders that are left")


def probe_the_package_run_as_a_program_serves_and_its_shell_chats(seed):
    import runpy

    from minisgl import server
    from minisgl.server import launch

    given: dict[str, list[Any]] = {}
    for name in ("minisgl", "minisgl.shell"):
        start = mock.Mock()
        with (
            mock.patch.object(server, "launch_server", start),
            mock.patch.object(launch, "launch_server", start),
        ):
            runpy.run_module(name, run_name="__main__")
        given[name] = [[list(call.args), call.kwargs] for call in start.call_args_list]
    return [given["minisgl"], len(given["minisgl.shell"]), str(given["minisgl.shell"])]


def judge_the_package_run_as_a_program_serves_and_its_shell_chats(seed, got):
    served, shells, how = got
    equal(len(served), 1, "servers that python -m minisgl starts")
    truth("True" not in str(served), "it has no chat unless --shell-mode says so", served)
    equal(shells, 1, "servers that python -m minisgl.shell starts")
    truth("True" in how, "this one has a chat", how)


class Session:
    """A server whose workers are threads, run in this thread, and a client in another.

    play(session): what the client does. signals: where it may put signals.
    """

    def __init__(self, play: Callable[[Session], None], **settings: Any) -> None:
        self.play, self.settings = play, {"shutdown_grace": 5.0, "server_port": 0, **settings}
        self.tasks: dict[str, Any] = {"scheduler": scheduler, "detokenizer": tokenizer}
        self.shell: Any = None
        self.signals: Any = None
        self.loop: Any = None
        self.ports: queue.Queue[int] = queue.Queue()
        self.failure: str | None = None
        self.farewell = 0.2

    def run(self) -> dict[str, Any]:
        """What Service.run raised, and what the world saw."""
        from minisgl.server import service
        from minisgl.server.api_server import app, set_global_state
        from minisgl.server.workers import Workers, private_folder

        bind = service.bind

        def noted(config: Any) -> socket.socket:
            sock = bind(config)
            self.ports.put(sock.getsockname()[1])
            return sock

        client = threading.Thread(target=self._play, daemon=True)
        with (
            threads_for_processes() as world,
            private_folder(stub_args(**self.settings)) as args,
            mock.patch.object(service, "bind", noted),
            mock.patch.object(service, "FAREWELL", self.farewell),
            mock.patch.object(service, "POLL", 0.02),
            mock.patch.object(service, "_signals", self._signals),
        ):
            client.start()
            began = time.monotonic()
            made = service.Service(args, app, set_global_state)
            error = error_of(lambda: made.run(lambda: Workers(args, self.tasks), self.shell))
            took = time.monotonic() - began
            client.join(10)
            return {"error": error, "took": took, "said": list(world.said), "client": self.failure}

    def _signals(self) -> Any:
        import asyncio

        self.loop, self.signals = asyncio.get_running_loop(), asyncio.Queue()
        return self.signals

    def tell(self) -> None:
        """Send the server a signal."""
        until(lambda: self.signals is not None)
        self.loop.call_soon_threadsafe(self.signals.put_nowait, signal.SIGTERM)

    def _play(self) -> None:
        try:
            self.play(self)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    @property
    def port(self) -> int:
        port = self.ports.get(timeout=20)
        self.ports.put(port)
        return port

    def ask(self, path: str, body: Any = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        data = None if body is None else json.dumps(body)
        method, headers = "POST" if data else "GET", {"Content-Type": "application/json"}
        connection.request(method, path, data, headers)
        return connection.getresponse()

    def answer(self, path: str, body: Any = None) -> list[Any]:
        """The status, and the text of a chat's answer or of an error."""
        response = self.ask(path, body)
        found = json.loads(response.read())
        if "error" in found:
            return [response.status, found["error"]["message"]]
        is_chat = "choices" in found
        return [response.status, found["choices"][0]["message"]["content"] if is_chat else found]


CHAT = "/v1/chat/completions"


def probe_a_signal_gives_running_requests_their_grace(seed):
    found: dict[str, Any] = {}

    def play(session: Session) -> None:
        found["first"] = session.answer(CHAT, chat("say a"))
        found["health"] = session.answer("/health")
        late = threading.Thread(
            target=lambda: found.update(late=session.answer(CHAT, chat("late"))), daemon=True
        )
        late.start()
        asked.wait(10)
        session.tell()
        until(lambda: session.ask("/health").status == 503)
        found["refused"] = session.answer(CHAT, chat("say a"))
        found["stopping"] = session.answer("/health")
        release.set()
        late.join(10)

    def answers(msg: Any) -> list[Any]:
        is_late = type(msg).__name__ == "TokenizeMsg" and msg.text[-1]["content"] == "late"
        if not is_late:
            return script(msg)
        asked.set()
        release.wait(10)
        return [reply(msg.uid, "at last", True)]

    asked, release = threading.Event(), threading.Event()
    session = Session(play, shutdown_grace=60.0)
    session.tasks["detokenizer"] = partial(tokenizer, answers=answers)
    return [found, session.run()]


def judge_a_signal_gives_running_requests_their_grace(seed, got):
    found, ran = got
    equal(ran["client"], None, "what went wrong at the client")
    equal([found["first"], found["health"]], [[200, "a "], [200, {"status": "ok"}]], "at first")
    stopping = [503, "the server is shutting down"]
    equal([found["refused"], found["stopping"]], [stopping] * 2, "once it is told to stop")
    equal(found["late"], [200, "at last"], "a request that was running")
    equal(ran["error"], None, "what the server raises")
    truth(ran["took"] < 40, "it does not wait longer than for the request", ran["took"])
    equal(ran["said"][0], "scheduler ends with 0", "the workers are stopped")


def probe_a_second_signal_or_the_grace_s_end_ends_what_runs(seed):
    found = []
    for times, grace in ((2, 60.0), (1, 0.4)):
        answers: list[Any] = []

        def play(session: Session, times: int = times, answers: list[Any] = answers) -> None:
            response = session.ask(CHAT, chat("begin a", stream=True))
            for _ in range(times):
                session.tell()
                time.sleep(0.2)
            *_, last = (line for line in response.read().decode().split("\n\n") if line)
            answers.append([response.status, json.loads(last.removeprefix("data: "))])

        session = Session(play, shutdown_grace=grace)
        found.append([session.run(), answers])
    return found


def judge_a_second_signal_or_the_grace_s_end_ends_what_runs(seed, got):
    for ran, answers in got:
        equal([ran["client"], ran["error"]], [None, None], "what went wrong")
        [[status, last]] = answers
        equal(status, 200, "a stream that had begun")
        equal(last["error"]["message"], "the server is shutting down", "its last event")
        truth(ran["took"] < 20, "it ends soon", ran["took"])


@public_bug("B95")
def probe_a_worker_s_death_is_told_and_ends_the_server(seed):
    found: dict[str, Any] = {}
    alive = threading.Event()

    def dies(args: Any, acks: Any) -> None:
        acks.put("ready")
        alive.wait(20)
        raise RuntimeError("a broken cable")

    def play(session: Session) -> None:
        stream = session.ask(CHAT, chat("begin a", stream=True))
        alive.set()
        until(lambda: session.ask("/health").status == 503)
        found["health"] = session.answer("/health")
        found["asked"] = session.answer(CHAT, chat("say a"))
        found["last"] = stream.read().decode().strip().split("\n\n")[-1]

    session = Session(play)
    session.tasks["scheduler"], session.farewell = dies, 2.0
    return [found, session.run()]


def judge_a_worker_s_death_is_told_and_ends_the_server(seed, got):
    found, ran = got
    cause = "the scheduler can't go on: RuntimeError: a broken cable"
    equal(ran["client"], None, "what went wrong at the client")
    equal([found["health"], found["asked"]], [[503, cause]] * 2, "what others are told")
    truth(cause in found["last"], "the stream's last event tells the cause", found["last"])
    refused(ran["error"], "a server whose worker has died", cause, kind="WorkerError")
    truth(ran["took"] < 20, "it ends soon", ran["took"])


@public_bug("B102")
def probe_an_address_that_can_not_be_had_is_refused_before_a_worker_starts(seed):
    from minisgl.server import service

    found = []
    started_: list[int] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        for host, wanted in (("127.0.0.1", port), ("192.0.2.1", 0), ("no host", 0)):
            args = stub_args(server_host=host, server_port=wanted)
            made = service.Service(args, None, lambda _: None)  # type: ignore[arg-type]
            found.append(error_of(lambda m=made: m.run(lambda: started_.append(1))))
    args = stub_args(server_port=0)
    one, other = service.bind(args), service.bind(args)
    ports = {sock.getsockname()[1] for sock in (one, other)}
    again = error_of(lambda: service.bind(stub_args(server_port=one.getsockname()[1])))
    reused = one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) != 0
    for sock in (one, other):
        sock.close()
    return [found, started_, str(port), len(ports), again, reused]


def judge_an_address_that_can_not_be_had_is_refused_before_a_worker_starts(seed, got):
    found, started_, port, ports, again, reused = got
    equal(reused, True, "whether a port may be had again right after a server has ended")
    words = [f"can't listen at 127.0.0.1:{port}: address already in use", "192.0.2.1", "no host"]
    for error, word in zip(found, words, strict=True):
        refused(error, "an address", word, "choose another with --host", kind="WorkerError")
    equal(started_, [], "workers that were started")
    equal(ports, 2, "two servers that take any port have different ones")
    refused(again, "the port of a server that is still starting", "already in use")


def probe_a_worker_that_fails_ends_the_start(seed):
    session = Session(lambda _: None)
    session.tasks["scheduler"] = fails
    ran = session.run()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", session.port))
        sock.listen(1)
    return ran


def judge_a_worker_that_fails_ends_the_start(seed, got):
    refused(got["error"], "a worker that can't start", "no memory", kind="WorkerError")
    truth("detokenizer is told" in got["said"], "the others are stopped", got["said"])


def probe_a_shell_ends_the_server_and_a_dead_worker_the_shell(seed):
    import asyncio

    seen: list[Any] = []

    async def short(state: Any) -> None:
        seen.append(["short", state.failure])

    async def long(state: Any) -> None:
        seen.append(["long", state.failure])
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def broken(state: Any) -> None:
        raise KeyError("a fault")

    found = []
    for shell, task in ((short, scheduler), (long, vanishes_soon), (broken, scheduler)):
        session = Session(lambda _: None)
        session.shell, session.tasks["scheduler"] = shell, task
        found.append(session.run()["error"])
        seen.append(session.ports.qsize())
    return [found, seen]


def vanishes_soon(args: Any, acks: Any) -> None:
    acks.put("ready")
    time.sleep(0.3)
    raise Ended(7)


def judge_a_shell_ends_the_server_and_a_dead_worker_the_shell(seed, got):
    (short, long, broken), seen = got
    equal(short, None, "a shell that its user leaves")
    refused(long, "a shell whose worker dies", "has died with status 7", kind="WorkerError")
    equal(broken["kind"], "KeyError", "a fault of the shell is not hidden")
    equal(seen, [["short", None], 0, ["long", None], "cancelled", 0, 0], "shells, and ports taken")


def probe_the_api_is_a_service_with_or_without_a_shell(seed):
    from minisgl.server import api_server

    found: list[list[Any]] = []

    class Noted:
        def __init__(self, *given: Any) -> None:
            self.given = given

        def run(self, *given: Any) -> None:
            want = ["args", api_server.app, api_server.set_global_state]
            shells = {None: "none", api_server.shell: "the shell"}
            found.append([list(self.given) == want, given[0], shells[given[1]]])

    start: Any = "start"
    with mock.patch.object(api_server, "Service", Noted):
        api_server.run_api_server("args", start, run_shell=False)  # type: ignore[arg-type]
        api_server.run_api_server("args", start, run_shell=True)  # type: ignore[arg-type]
    return found


def judge_the_api_is_a_service_with_or_without_a_shell(seed, got):
    want = [[True, "start", "none"], [True, "start", "the shell"]]
    equal(got, want, "whether it is this app, what starts the workers, and which shell")


def probe_both_signals_are_heard(seed):
    import asyncio

    from minisgl.server import service

    async def hear() -> list[int]:
        signals = service._signals()
        heard = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            signal.raise_signal(number)
            heard.append(int(await asyncio.wait_for(signals.get(), 5)))
        return heard

    return asyncio.run(hear())


def judge_both_signals_are_heard(seed, got):
    equal(got, [signal.SIGTERM, signal.SIGINT, signal.SIGINT], "signals in order")


def probe_what_was_said_is_written_before_a_process_ends(seed):
    from minisgl.server import workers

    steps: list[Any] = []
    streams = {name: SimpleNamespace(flush=partial(steps.append, name)) for name in ("out", "err")}
    with (
        mock.patch.object(workers.os, "_exit", steps.append),
        mock.patch.object(logging, "shutdown", partial(steps.append, "log")),
        mock.patch.object(sys, "stdout", streams["out"]),
        mock.patch.object(sys, "stderr", streams["err"]),
    ):
        workers.end_process(4)
    return steps


def judge_what_was_said_is_written_before_a_process_ends(seed, got):
    equal(sorted(got[:3]), ["err", "log", "out"], "what is written out first")
    equal(got[3:], [4], "then the process ends")
