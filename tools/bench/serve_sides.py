"""The two sides of the comparison, each in processes of its own, on the same requests."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import psutil

from bench.raw_client import Stream, stream_all

COUNT, SHORTEST, LONGEST, FEWEST, MOST = 64, 16, 128, 32, 64
PAGES = COUNT * (LONGEST + MOST)
BUDGET = 2048
"""Prompt tokens of one batch."""


class Task(NamedTuple):
    """One request: its prompt, and how many tokens it wants."""

    prompt: list[int]
    tokens: int


def draw_tasks(vocab_size: int, turn: int) -> list[Task]:
    """Requests of mixed lengths, other ones each turn, so that no cache holds them."""
    draw = random.Random(turn)
    return [
        Task(
            [draw.randrange(vocab_size) for _ in range(draw.randint(SHORTEST, LONGEST))],
            draw.randint(FEWEST, MOST),
        )
        for _ in range(COUNT)
    ]


class LLMSide:
    """LLM.generate in a process of its own."""

    def __init__(self, folder: str) -> None:
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_generate_forever, args=(folder, theirs))
        self._process.start()
        theirs.close()
        self.vocab_size: int = self._pipe.recv()

    def run(self, tasks: list[Task]) -> float:
        """Seconds of one generate call."""
        self._pipe.send(tasks)
        seconds: float = self._pipe.recv()
        return seconds

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


def _generate_forever(folder: str, pipe: Connection) -> None:
    import torch

    from minisgl.core import SamplingParams
    from minisgl.llm import LLM

    llm = LLM(
        folder,
        torch.float32,
        max_extend_tokens=BUDGET,
        max_running_req=COUNT,
        num_page_override=PAGES,
    )
    pipe.send(llm.config.model_config.vocab_size)
    while True:
        try:
            tasks = pipe.recv()
        except EOFError:
            return
        params = [SamplingParams(max_tokens=task.tokens, ignore_eos=True) for task in tasks]
        start = time.perf_counter()
        llm.generate([task.prompt for task in tasks], params, use_tqdm=False)
        pipe.send(time.perf_counter() - start)


class ServerSide:
    """A server with the same settings, and a raw client in this process."""

    def __init__(self, folder: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        options = ["--model", folder, "--port", str(self.port), "--dtype", "float32"]
        options += ["--max-running-requests", str(COUNT), "--num-pages", str(PAGES)]
        options += ["--max-prefill-length", str(BUDGET)]
        start = time.perf_counter()
        self._server = subprocess.Popen([sys.executable, "-m", "minisgl", *options])
        while not self._is_ready():
            if self._server.poll() is not None:
                raise RuntimeError(f"the server ended with status {self._server.returncode}")
            time.sleep(0.1)
        self.start_seconds = time.perf_counter() - start

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health") as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def run(self, tasks: list[Task]) -> tuple[float, list[Stream]]:
        """Seconds until the last stream's end, and the streams."""
        model = self.model()
        bodies: list[dict[str, Any]] = [
            {
                "model": model,
                "prompt": task.prompt,
                "max_tokens": task.tokens,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            for task in tasks
        ]
        streams, seconds = stream_all(self.port, "/v1/completions", bodies)
        for task, stream in zip(tasks, streams, strict=True):
            if stream.completion_tokens() != task.tokens:
                raise RuntimeError("an answer has not the tokens asked for")
        return seconds, streams

    def model(self) -> str:
        """The name under which the server knows its model."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models") as reply:
            return str(json.load(reply)["data"][0]["id"])

    def cpu_seconds(self) -> float:
        """CPU time of the API process so far; the workers are processes of their own."""
        times = psutil.Process(self._server.pid).cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        self._server.send_signal(signal.SIGTERM)
        self._server.wait()


def use_threads(count: int) -> None:
    """Tell the processes to come how many threads torch has."""
    os.environ["OMP_NUM_THREADS"] = str(count)
