"""The driver of the service's random traffic, in short; and it sees what would be wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from soak.served import Task, Tasks, greedy, known_prompts
from soak.wire import Reply, Wrong, _read

ROOT = Path(__file__).resolve().parents[2]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.mark.slow
def test_some_hundred_requests() -> None:
    command = [sys.executable, "tests/soak/serve.py", "--requests", "200", "--seed", "3"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing lost, nothing doubled, nothing kept" in done.stdout


def _event(text: str, finish: str = "null", index: int = 0) -> bytes:
    choice = f'{{"index": {index}, "text": "{text}", "finish_reason": {finish}}}'
    return f'data: {{"choices": [{choice}]}}\n\n'.encode()


DONE = b"data: [DONE]\n\n"
GOOD = [_event("a"), _event("b", '"length"'), DONE]


def _check(events: list[bytes]) -> None:
    Task("", greedy([1], 2) | {"stream": True}, ("ab", "length")).check(
        _read(HEAD + b"".join(events))
    )


def test_what_is_right_passes() -> None:
    _check(GOOD)


@pytest.mark.parametrize(
    ("events", "what"),
    [
        (GOOD[:-1], "DONE"),
        ([*GOOD, DONE], "DONE"),
        ([*GOOD, GOOD[0]], "DONE"),
        ([GOOD[0], DONE], "end"),
        ([*GOOD[:2], GOOD[1], DONE], "behind its end"),
        ([GOOD[1], DONE], "expected"),
        ([GOOD[0], GOOD[0], GOOD[1], DONE], "expected"),
        ([*GOOD[:2], _event("c", '"stop"', index=1), DONE], "the choices end"),
        ([GOOD[0], b'data: {"error": {"message": "x"}}\n\n'], "message"),
    ],
)
def test_what_is_wrong_is_seen(events: list[bytes], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        _check(events)


def test_an_error_instead_of_an_answer_is_seen() -> None:
    with pytest.raises(Wrong, match="status 503"):
        Task("", greedy([1], 2)).check(Reply(503, error={"message": "x"}))
    with pytest.raises(Wrong, match="status 200"):
        Task("", greedy([1], 2), status=400).check(Reply(200, {0: "a"}, {0: ["length"]}))


def test_a_seed_gives_the_same_traffic_again() -> None:
    def draw(seed: int) -> list[Task]:
        prompts = known_prompts(seed)
        answers = [dict.fromkeys((1, 2, 4, 7, 12, 20, 45), ("abc", "length")) for _ in prompts]
        tasks = Tasks(seed, prompts, answers)
        return [tasks.draw() for _ in range(300)]

    assert draw(1) == draw(1) != draw(2)
    assert len({task.kind for task in draw(1)}) == 8
