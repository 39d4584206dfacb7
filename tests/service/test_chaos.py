"""Workers that are killed, servers that are killed, and clients that stop reading."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import psutil
import pytest
from ending import Ending, ending_server
from wire import LONG, Call, ask, body, is_idle, metrics, runs, until

from pairs import public_bug

WORKERS = ("scheduler", "detokenizer", "tokenizer 0")


@public_bug("B95")
@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_that_is_killed_ends_the_server(worker: str) -> None:
    with ending_server("--num-tokenizer", "1") as server:
        stream = Call(server.port, body=body(stream=True, **LONG))
        events = stream.events()
        next(events)
        whole = Call(server.port, body=body("At noon", **LONG))
        until(lambda: runs(server.port, 2), 3, "two requests that run")
        killed = time.monotonic()
        psutil.Process(server.pid(worker)).kill()
        until(lambda: Call(server.port, "/health").status == 503, 2, "a bad health")
        for call in (Call(server.port, body=body()), Call(server.port, "/health"), whole):
            assert call.status == 503
            message = call.error()["message"]
            assert worker in message and "SIGKILL" in message
        *_, last = events
        assert last.keys() == {"error"} and worker in last["error"]["message"]
        assert server.end(within=5) == 1
        assert time.monotonic() - killed < 5
        cause = server.log.splitlines()[-1]
        assert cause.startswith("error: ") and worker in cause and "SIGKILL" in cause
        assert "Traceback" not in server.log


@pytest.mark.parametrize("worker", ["scheduler", "detokenizer"])
def test_a_worker_that_is_killed_while_nothing_runs(worker: str) -> None:
    with ending_server() as server:
        psutil.Process(server.pid(worker)).kill()
        assert server.end(within=5) == 1
        assert worker in server.log.splitlines()[-1]


def test_all_workers_end_with_a_server_that_is_killed() -> None:
    with ending_server("--num-tokenizer", "1") as server:
        Call(server.port, body=body(stream=True, **LONG)).take(1)
        server.process.kill()
        assert server.end(within=3) == -signal.SIGKILL


@pytest.fixture(scope="module")
def impatient() -> Iterator[Ending]:
    """A server that waits for 2 s until a client takes what is sent."""
    with ending_server("--send-timeout", "2") as server:
        yield server
        server.process.terminate()
        assert server.end(within=5) == 0


def _much(port: int, receive_buffer: int | None = None) -> Call:
    """A stream of some 7 MB, more than a system keeps for who doesn't read."""
    fields = {"n": 4, "logprobs": True, "top_logprobs": 20, "stream": True, **LONG}
    message = {"role": "user", "content": "Tell me a story"}
    given = {"model": "tiny-qwen3", "messages": [message], **fields}
    return Call(port, "/v1/chat/completions", given, receive_buffer=receive_buffer)


def test_a_client_that_stops_reading_is_let_go(impatient: Ending) -> None:
    port = impatient.port
    assert sum(len(str(event)) for event in _much(port).events()) > 6_000_000
    api = psutil.Process(impatient.process.pid)
    before, most = api.memory_info().rss, 0
    call = _much(port, receive_buffer=4096)
    until(lambda: runs(port, 4), 5, "the requests of the one that doesn't read")
    answers = []
    began = time.monotonic()
    while not is_idle(port):
        answers.append(ask(port, max_tokens=3))
        most = max(most, api.memory_info().rss)
        assert time.monotonic() - began < 30, "the requests of one that doesn't read go on"
    assert metrics(port)['requests_total{outcome="aborted"}'] == 4
    assert len(answers) > 3 and len(set(answers)) == 1
    assert most - before < 30 << 20, f"{(most - before) >> 20} MiB are kept for who doesn't read"
    call.leave()
