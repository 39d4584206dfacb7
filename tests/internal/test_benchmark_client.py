"""The benchmark client against a server whose every delay and token is known."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from openai import AsyncOpenAI

from bench.raw_client import Stream, stream_all
from minisgl.benchmark import client as bench
from minisgl.utils import load_tokenizer
from pairs import checkpoint

CHAT = "/v1/chat/completions"
FIRST, STEP, SLACK = 0.4, 0.2, 0.09
"""Seconds until a timed answer's first chunk, between two chunks, and what a busy machine adds."""


def chunk(text: str | None, finish: str | None = None, usage: Any = None) -> str:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "fake",
        "choices": [] if usage else choices,
        "usage": usage,
    }
    return f"data: {json.dumps(body)}\n\n"


async def script(wanted: str, tokens: int) -> AsyncIterator[str]:
    """Two tokens a chunk, or what the word in the prompt asks for instead."""
    first, step = (FIRST, STEP) if wanted == "timed" else (0.05, 0.01)
    yield chunk("")  # the role alone: no content
    await asyncio.sleep(first)
    for i in range(0, tokens, 2):
        await asyncio.sleep(step if i else 0)
        if wanted == "broken" and i == 2:
            yield 'data: {"error": {"message": "a worker died"}}\n\n'
            return
        if wanted == "cut" and i == 2:
            return
        yield chunk("x ")
    yield chunk(None, "length")
    if wanted != "uncounted":
        yield chunk(
            None, usage={"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9}
        )
    yield "data: [DONE]\n\n"


class Fake:
    """The server; `asked` are the bodies of its requests, `most` how many it had at once."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.now = self.most = 0
        app = FastAPI()
        app.get("/v1/models")(self.models)
        app.post(CHAT)(self.chat)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)

    async def models(self) -> dict[str, Any]:
        entry = {"id": "fake", "object": "model", "created": 0, "owned_by": "tests"}
        return {"object": "list", "data": [entry]}

    async def chat(self, request: Request) -> Any:
        body = await request.json()
        self.asked.append({**body, "at": time.perf_counter()})
        prompt = body["messages"][0]["content"]
        if prompt == "refused":
            return JSONResponse({"error": {"message": "too long"}}, status_code=400)
        return StreamingResponse(
            self.counted(script(prompt, body["max_tokens"])), media_type="text/event-stream"
        )

    async def counted(self, stream: AsyncIterator[str]) -> AsyncIterator[str]:
        self.now += 1
        self.most = max(self.most, self.now)
        async for part in stream:
            yield part
        self.now -= 1


@pytest.fixture(scope="module")
def running() -> Iterator[Fake]:
    fake = Fake()
    fake.thread.start()
    yield fake
    fake.server.should_exit = True
    fake.thread.join(10)
    assert not fake.thread.is_alive()


@pytest.fixture
def server(running: Fake) -> Fake:
    running.asked.clear()
    running.most = 0
    return running


def batch(server: Fake, prompts: list[str], tokens: Any = 6, **more: Any) -> list[bench.RawResult]:
    async def run() -> list[bench.RawResult]:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            model = await bench.get_model_name(client)
            more.setdefault("pbar", False)
            return await bench.benchmark_one_batch(client, prompts, tokens, model, **more)

    return asyncio.run(run())


def near(got: float, want: float) -> bool:
    return abs(got - want) < SLACK


def test_times_and_tokens_are_those_of_the_script(server: Fake) -> None:
    batch(server, ["warm"])  # the first connection of a process is slow
    seen = []
    for _ in range(5):  # a busy machine is late now and then, and never early
        [one] = batch(server, ["timed"], input_lengths=[3])
        sent, *chunks = one.tics
        assert (one.error, one.output_len, one.input_len, len(chunks)) == (None, 6, 9, 3)
        gaps = [b - a for a, b in zip(chunks, chunks[1:], strict=False)]
        if near(chunks[0] - sent, FIRST) and all(near(gap, STEP) for gap in gaps):
            return
        seen.append(one.tics)
    raise AssertionError(seen)


def test_a_request_asks_for_a_streamed_answer_of_fixed_length(server: Fake) -> None:
    batch(server, ["plain"], extra_body={"top_k": 1})
    [body] = server.asked
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (body["ignore_eos"], body["top_k"], body["max_tokens"]) == (True, 1, 6)


def test_failures_are_results_and_harm_no_other(server: Fake) -> None:
    prompts = ["refused", "plain", "broken", "cut"]
    refused, plain, broken, cut = batch(server, prompts, [2, 4, 4, 4])
    assert plain.error is None and plain.output_len == 4
    assert refused.error == "HTTP 400: too long" and len(refused.tics) == 1
    assert broken.error is not None and "a worker died" in broken.error
    assert cut.error == "the stream ended before the answer did"


def test_without_usage_a_chunk_counts_as_a_token(server: Fake) -> None:
    [one] = batch(server, ["uncounted"], input_lengths=[3])
    assert (one.error, one.output_len, one.input_len) == (None, 3, 3)


def test_bars_and_counters_end_where_they_should(server: Fake) -> None:
    console = bench.make_console(4, 16, use_pbar=False)
    batch(server, ["plain", "plain", "refused", "cut"], 4, pbar=console)
    assert (console.inflight_counter.current, console.queue_counter.current) == (0, 0)
    assert (console.inflight_counter.history_max, console.queue_counter.history_max) == (4, 4)


@pytest.mark.parametrize("bars", [True, False])
def test_bars_are_drawn_only_when_asked_for(
    server: Fake, bars: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(server, ["plain"], pbar=bars)
    shown = capsys.readouterr().err
    assert ("answered: 100%" in shown and "tokens: 100%" in shown) == bars, shown


def test_concurrency_is_the_most_requests_at_once(server: Fake) -> None:
    batch(server, ["plain"] * 5, 2, concurrency=2)
    assert server.most == 2
    batch(server, ["plain"] * 5, 2)
    assert server.most == 5


def test_a_trace_is_sent_in_time(server: Fake) -> None:
    traces = [bench.BenchmarkTrace(at, f"{at}", 2) for at in (7.5, 7.0, 7.2)]

    async def run() -> list[bench.RawResult]:
        async with AsyncOpenAI(base_url=server.url, api_key="none") as client:
            return await bench.benchmark_trace(client, traces, "fake", pbar=False)

    results = asyncio.run(run())
    assert [one.message for one in results] == ["7.5", "7.0", "7.2"]
    first = server.asked[0]["at"]
    came = {body["messages"][0]["content"]: body["at"] - first for body in server.asked}
    assert list(came) == ["7.0", "7.2", "7.5"]
    assert near(came["7.2"], 0.2) and near(came["7.5"], 0.5), came


def raw(server: Fake, prompts: list[str]) -> list[Stream]:
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    bodies = [
        {"messages": [{"role": "user", "content": prompt}], "max_tokens": 6, **usage}
        for prompt in prompts
    ]
    streams, seconds = stream_all(int(server.url.split(":")[2][:-3]), CHAT, bodies)
    assert seconds >= max(stream.came[-1] - stream.sent for stream in streams)
    return streams


def test_the_raw_client_sees_the_same_times_and_tokens(server: Fake) -> None:
    timed, plain = raw(server, ["timed", "plain"])
    assert (timed.completion_tokens(), plain.completion_tokens()) == (6, 6)
    sent, chunks = timed.sent, timed.token_times()
    gaps = [b - a for a, b in zip(chunks, chunks[1:], strict=False)]
    assert near(chunks[0] - sent, FIRST) and len(gaps) == 2, chunks
    assert all(near(gap, STEP) for gap in gaps), gaps


@pytest.mark.parametrize(("prompt", "told"), [("refused", "HTTP 400.*too long"), ("cut", "200")])
def test_the_raw_client_refuses_an_answer_that_is_not_whole(
    server: Fake, prompt: str, told: str
) -> None:
    [stream] = raw(server, [prompt])
    with pytest.raises(RuntimeError, match=told):
        stream.completion_tokens()


@pytest.mark.parametrize("name", ["tiny-qwen2", "tiny-llama3", "tiny-mistral", "smollm2-135m"])
def test_a_prompt_has_exactly_n_tokens(name: str) -> None:
    tokenizer = load_tokenizer(checkpoint(name))
    rng = random.Random(1)
    prompts = [bench.generate_prompt(tokenizer, n, rng) for n in (1, 2, 17, 1000)]
    lengths = [len(tokenizer.encode(text, add_special_tokens=False)) for text in prompts]
    assert lengths == [1, 2, 17, 1000]
    assert len(set(prompts[3].split())) > 20
    with pytest.raises(ValueError, match="at least one token"):
        bench.generate_prompt(tokenizer, 0)


def command(server_url: str, *more: str) -> list[str]:
    model = checkpoint("tiny-qwen3")
    return ["--url", server_url, "--tokenizer", model, "--no-progress", *more]


def test_the_command_prints_a_table_and_writes_the_numbers(
    server: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("MINISGL_MODELS", str(Path(checkpoint("tiny-qwen3")).parent))
    file = tmp_path / "run.json"
    shape = [
        "--tokenizer",
        "tiny-qwen3",
        "--num-requests",
        "3",
        "--input-len",
        "9",
        "--output-len",
        "4",
        "--rate",
        "50",
    ]
    assert bench.main(command(server.url, *shape, "--json", str(file))) == 0
    shown = capsys.readouterr().out
    for line in ("3 answered, 0 failed", "output tokens     12", "TTFT", "TPOT", "inter-token"):
        assert line in shown, shown
    told = json.loads(file.read_text())
    assert (told["model"], told["output_tokens"], told["failures"]) == ("fake", 12, {})
    again = bench.BenchmarkResult.from_json(told["answers"])
    assert [(one.input_len, one.output_len) for one in again.raw_data] == [(9, 4)] * 3
    assert again.as_json() == told["answers"]


def test_a_failed_request_is_named_and_the_exit_code_is_1(
    server: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("minisgl.benchmark.load.generate_prompt", lambda *_: "refused")
    assert bench.main(command(server.url, "--num-requests", "2")) == 1
    shown = capsys.readouterr().out
    assert "0 answered, 2 failed" in shown and "2 x HTTP 400: too long" in shown, shown


def test_a_trace_file_is_sent(server: Fake, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [{"timestamp": 3000 * i, "input_length": 5, "output_length": 2} for i in range(3)]
    trace.write_text("\n".join(map(json.dumps, lines)))
    options = ["--trace", str(trace), "--trace-kind", "mooncake", "--scale", "0.1"]
    assert bench.main(command(server.url, *options, "--num-requests", "2")) == 0
    times = [body["at"] for body in server.asked]
    assert len(times) == 2 and near(times[1] - times[0], 0.3), times


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trace", "absent.jsonl", "--trace-kind", "qwen"], "absent.jsonl: No such file"),
        (["--tokenizer", "nowhere"], "no tokenizer at 'nowhere'; give --tokenizer PATH"),
        (["--tokenizer", "./nowhere"], "no tokenizer at './nowhere'; give --tokenizer PATH"),
        (["--url", "http://127.0.0.1:9/v1"], "no server answers at http://127.0.0.1:9/v1/"),
    ],
)
def test_bad_input_is_one_sentence(
    server: Fake, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert bench.main(command(server.url, *options)) == 2
    told = capsys.readouterr().err
    assert sentence in told and told.count("\n") == 1, told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--scale", "2"], "--scale needs --trace FILE."),
        (["--trace", "x"], "--trace needs --trace-kind qwen or mooncake."),
        (["--trace", "x", "--trace-kind", "qwen", "--rate", "3"], "--rate can't be given with"),
        (["--rate", "0"], "'0' is not a number above 0"),
        (["--num-requests", "few"], "'few' is not a whole number above 0"),
        (["--json", "nowhere/run.json"], "the folder of nowhere/run.json isn't there"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench.main(options)
    assert stopped.value.code == 2 and sentence in capsys.readouterr().err


def test_without_openai_the_command_says_what_to_install() -> None:
    program = (
        "import runpy, sys; sys.modules['openai'] = None;"
        "runpy.run_module('minisgl.benchmark.client', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "minisgl.benchmark.client needs OpenAI's client: pip install openai\n"
