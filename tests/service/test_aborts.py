"""Clients that go away: whatever they asked for ends soon, and nobody else notices.

A scheduler checks before each idle wait that all rows and pages have come back, and reports then.
So a report of nothing that runs, while the scheduler lives, says that the check has passed.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ending import ROOT, Ending, ending_server, pids
from wire import LONG, Call, ask, body, is_idle, metrics, runs, until

from pairs import public_bug

PROMPTS = [[7 * i + 3, 11 * i + 5, 13 * i + 2] for i in range(12)]


@pytest.fixture(scope="module")
def server() -> Iterator[Ending]:
    """Few rows, so that requests wait, and prompts that are computed token by token."""
    with ending_server("--max-running-requests", "4", "--max-prefill-length", "1") as server:
        yield server
        server.process.terminate()
        assert server.end(within=5) == 0


@pytest.fixture(autouse=True)
def nothing_is_lost(server: Ending) -> Iterator[None]:
    """After each test: everything is free, the workers are those from before, and it answers."""
    yield
    until(lambda: is_idle(server.port), 2, "an idle scheduler")
    assert ask(server.port, max_tokens=4)
    until(lambda: is_idle(server.port), 2, "an idle scheduler")
    assert all(psutil.pid_exists(pid) for pid in pids(server.log).values())
    assert "ERROR" not in server.log


def _unseen(length: int, seed: int) -> list[int]:
    """A prompt that no cache knows."""
    return [random.Random(f"{length} {seed}").randrange(1000) for _ in range(length)]


@public_bug("B71")
@pytest.mark.parametrize("n", [1, 3])
def test_a_stream_that_nobody_reads_ends(server: Ending, n: int) -> None:
    call = Call(server.port, body=body(_unseen(5, n), n=n, stream=True, **LONG))
    call.take(2)
    until(lambda: runs(server.port, n), 3, f"{n} requests that run")
    aborted = metrics(server.port).get('requests_total{outcome="aborted"}', 0)
    call.leave()
    until(lambda: is_idle(server.port), 2, "an idle scheduler")
    assert metrics(server.port)['requests_total{outcome="aborted"}'] == aborted + n


@public_bug("B71")
@pytest.mark.parametrize("n", [1, 3])
def test_an_answer_in_one_piece_that_nobody_waits_for_ends(server: Ending, n: int) -> None:
    call = Call(server.port, body=body(_unseen(6, n), n=n, **LONG))
    until(lambda: runs(server.port, n), 3, f"{n} requests that run")
    call.leave()
    until(lambda: is_idle(server.port), 2, "an idle scheduler")


@public_bug("B72")
def test_a_client_that_leaves_during_its_prefill_frees_the_way(server: Ending) -> None:
    prompt = _unseen(1000, 1)
    alone = _seconds(lambda: ask(server.port, prompt, max_tokens=1))
    other = Call(server.port, body=body(_unseen(9, 2), stream=True, **LONG))
    events = other.events()
    seen = [next(events)]
    call = Call(server.port, body=body(_unseen(1000, 3), **LONG))
    time.sleep(alone / 5)
    call.leave()
    waited = _seconds(lambda: ask(server.port, _unseen(9, 4), max_tokens=2))
    assert waited < alone / 2, f"{waited:.2f} s behind a prompt of {alone:.2f} s that was left"
    seen += events
    assert seen[-1] == "[DONE]" and seen[-2]["choices"][0]["finish_reason"] == "length"


def _seconds(work: Any) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


@public_bug("B71")
def test_a_client_that_leaves_the_queue_is_never_computed(server: Ending) -> None:
    running = [Call(server.port, body=body(_unseen(5, i), stream=True, **LONG)) for i in range(4)]
    for call in running:
        call.take(1)
    tokens = metrics(server.port)["prompt_tokens_total"]
    waiting = Call(server.port, body=body(_unseen(900, 9), **LONG))
    until(lambda: metrics(server.port)["waiting_requests"] == 1, 3, "a request that waits")
    waiting.leave()
    until(lambda: metrics(server.port)["waiting_requests"] == 0, 2, "an empty queue")
    assert runs(server.port, 4)
    for call in running:
        call.leave()
    until(lambda: is_idle(server.port), 2, "an idle scheduler")
    assert metrics(server.port)["prompt_tokens_total"] == tokens


def test_one_choice_that_ends_early_leaves_the_others_be(server: Ending) -> None:
    whole = Call(server.port, body=body(n=3, seed=4, temperature=1, max_tokens=30)).json()
    texts = [choice["text"] for choice in whole["choices"]]
    stop = texts[1][:2]
    call = Call(server.port, body=body(n=3, seed=4, temperature=1, max_tokens=30, stop=stop))
    for choice, text in zip(call.json()["choices"], texts, strict=True):
        cut = text.find(stop)
        assert choice["text"] == (text if cut < 0 else text[:cut])


@public_bug("B71", "B72", "B73")
def test_300_aborts_at_random_moments(server: Ending) -> None:
    before = [ask(server.port, prompt, max_tokens=20) for prompt in PROMPTS]
    asyncio.run(_abort_many(server.port, 60))  # warm up
    until(lambda: is_idle(server.port), 2, "an idle scheduler")
    memory = _memory(server)
    asyncio.run(_abort_many(server.port, 300))
    until(lambda: is_idle(server.port), 2, "an idle scheduler")
    assert [ask(server.port, prompt, max_tokens=20) for prompt in PROMPTS] == before
    for name, size in _memory(server).items():
        assert size - memory[name] < 10 << 20, f"the {name} has kept {size - memory[name]} bytes"


def _memory(server: Ending) -> dict[str, int]:
    """Bytes of who keeps something for each request. (The scheduler's pool fills bit by bit.)"""
    processes = {"server": server.process.pid, "detokenizer": server.pid("detokenizer")}
    return {name: psutil.Process(pid).memory_info().rss for name, pid in processes.items()}


async def _abort_many(port: int, count: int) -> None:
    gate = asyncio.Semaphore(12)
    async with asyncio.timeout(120):
        await asyncio.gather(
            *(_abort_one(port, random.Random(seed), gate) for seed in range(count))
        )


async def _abort_one(port: int, draw: random.Random, gate: asyncio.Semaphore) -> None:
    """Send a request or a part of it, and close the connection at some moment."""
    fields = body(
        draw.choice(PROMPTS) + _unseen(draw.choice([1, 30]), draw.randrange(10**6)),
        stream=draw.random() < 0.6,
        n=draw.choice([1, 1, 3]),
        max_tokens=draw.choice([1, 5, 200]),
        stop=draw.choice([[], ["a"]]),
    )
    raw = json.dumps(fields).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    data = f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw
    if draw.random() < 0.1:
        data = data[: draw.randrange(len(data))]
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        if draw.random() < 0.5:
            await asyncio.sleep(draw.uniform(0, 0.3))
        else:
            for _ in range(draw.randrange(5)):
                try:
                    async with asyncio.timeout(2):
                        await reader.readuntil(b"\n\n")
                except (TimeoutError, asyncio.IncompleteReadError):
                    break
        if draw.random() < 0.5:
            writer.transport.abort()
        writer.close()


@public_bug("B71")
def test_what_the_scheduler_loses_would_end_the_server(tmp_path: Path) -> None:
    """The check that the other tests rely on, seen to work: rows that never come back."""
    (tmp_path / "sitecustomize.py").write_text(
        "from minisgl.scheduler import Scheduler\n"
        "Scheduler._free_req_resources = lambda self, req: None\n"
    )
    with ending_server(env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}) as server:
        # the check may end the scheduler before its last reply has left
        assert Call(server.port, body=body()).status in (200, 503)
        assert server.end(within=8) == 1
        assert "pages are wrong" in server.log.splitlines()[-1]
