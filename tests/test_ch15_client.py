"""Chapter 15: the benchmark as a client: what it sends, when, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from pairs import equal, error_of, refused, truth

WORDS = [a + b for a in "abcdefghij" for b in "abcdefghij"]


class LetterTokenizer:
    """One token for each word of two letters."""

    def __len__(self) -> int:
        return len(WORDS)

    def __call__(self, texts: list[str], **settings: Any) -> dict[str, Any]:
        return {"input_ids": [[WORDS.index(word) for word in text.split()] for text in texts]}

    def batch_decode(self, rows: list[list[int]]) -> list[str]:
        return [" ".join(WORDS[i] for i in ids) for ids in rows]


class APIError(Exception):
    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message)
        self.message = message
        vars(self).update(more)


class APIStatusError(APIError):
    pass


class APIConnectionError(APIError):
    pass


def chunk(text: str | None, ends: bool = False, usage: tuple[int, int] | None = None) -> Any:
    choice = SimpleNamespace(
        delta=SimpleNamespace(content=text), finish_reason="length" if ends else None
    )
    counts = usage and SimpleNamespace(prompt_tokens=usage[0], completion_tokens=usage[1])
    return SimpleNamespace(choices=[] if text is None else [choice], usage=counts)


class Server:
    """What all fake clients talk to. asked: each request's time and fields; most: at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, dict[str, Any]]] = []
        self.now, self.most = 0, 0
        self.models: list[str] | Exception = ["o/served"]
        self.keys: list[list[Any]] = []

    async def create(self, **fields: Any) -> AsyncIterator[Any]:
        self.asked.append((time.monotonic(), fields))
        return self.stream(fields["messages"][0]["content"], fields["max_tokens"])

    async def stream(self, prompt: str, wanted: int) -> AsyncIterator[Any]:
        """Answers as the prompt's first word says; with one token a chunk unless it says more."""
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.02)
            if prompt.startswith("full"):
                body = {"message": "too many\nare waiting"}
                raise APIStatusError("ignored", status_code=429, body=body)
            if prompt.startswith("odd"):
                raise KeyError("x")
            yield chunk("")
            for i in range(wanted):
                await asyncio.sleep(0.01)
                yield chunk("w", ends=i == wanted - 1 and not prompt.startswith("cut"))
            if not prompt.startswith(("bare", "cut")):
                yield chunk(None, usage=(len(prompt.split()) + 5, wanted))
        finally:
            self.now -= 1

    async def list_models(self) -> AsyncIterator[Any]:
        if isinstance(self.models, Exception):
            raise self.models
        for name in self.models:
            yield SimpleNamespace(id=name)

    def client(self, base_url: str = "URL", **settings: Any) -> Any:
        self.keys.append([base_url, *settings.values()])
        made = mock.MagicMock()
        made.base_url = base_url
        made.__aenter__.return_value = made
        made.chat.completions.create = self.create
        made.models.list = self.list_models
        return made


@contextmanager
def served() -> Iterator[tuple[Any, Server]]:
    """The module of the client, with a stand-in for OpenAI's, and the server behind it."""
    import importlib

    server, fake = Server(), ModuleType("openai")
    kinds = {"APIError": APIError, "APIStatusError": APIStatusError}
    vars(fake).update(kinds, APIConnectionError=APIConnectionError, AsyncOpenAI=server.client)
    name = "minisgl.benchmark.client"
    kept = {key: sys.modules.pop(key) for key in ("openai", name) if key in sys.modules}
    sys.modules["openai"] = fake
    try:
        yield importlib.import_module("minisgl.benchmark.client"), server
    finally:
        for key in ("openai", name):
            sys.modules.pop(key, None)
        sys.modules.update(kept)


def told(results: list[Any]) -> list[list[Any]]:
    return [[r.input_len, r.output_len, len(r.tics), r.error] for r in results]


def probe_each_answer_is_noted_and_a_failure_is_a_result(seed):
    prompts = ["aa ab", "bare", "full", "odd", "cut"]
    with served() as (client, server):
        made = server.client()
        given: dict[str, Any] = {"pbar": False, "input_lengths": [None, 7, None, 8, 9]}
        found = asyncio.run(
            client.benchmark_one_batch(made, prompts, [2, 3, 2, 2, 2], "m", **given)
        )
        one = asyncio.run(
            client.benchmark_one(made, "aa", 2, "m", pbar=False, extra_body={"top_k": 1})
        )
        gaps = [b - a for a, b in zip(found[0].tics, found[0].tics[1:], strict=False)]
        return [told(found), [r.message for r in found], told([one]), server.asked[-1][1], gaps]


def judge_each_answer_is_noted_and_a_failure_is_a_result(seed, got):
    found, prompts, one, asked, gaps = got
    equal(found[0], [7, 2, 3, None], "tokens as the server counts them, and the chunks' times")
    equal(found[1], [7, 3, 4, None], "without its counts: the prompt's length, and the chunks")
    equal(found[2], [None, 0, 1, "HTTP 429: too many are waiting"], "a request that is refused")
    equal(found[3], [8, 0, 1, "KeyError: 'x'"], "one that fails in another way")
    equal(found[4], [9, 2, 3, "the stream ended before the answer did"], "one that is cut")
    equal(prompts, ["aa ab", "bare", "full", "odd", "cut"], "results in order")
    equal(one, [[6, 2, 3, None]], "a request of its own")
    body = asked.pop("extra_body")
    equal(body, {"ignore_eos": True, "top_k": 1}, "fields beside OpenAI's")
    want = {"model": "m", "messages": [{"role": "user", "content": "aa"}], "max_tokens": 2}
    want |= {"temperature": 0.0, "stream": True, "stream_options": {"include_usage": True}}
    equal(asked, want, "what is asked for")
    truth(all(gap > 0.005 for gap in gaps), "the times are those of the chunks", gaps)


def probe_requests_are_sent_in_time_and_in_turns(seed):
    with served() as (client, server):
        made = server.client()
        trace = [client.BenchmarkTrace(at, "aa", 2) for at in (7.0, 7.3, 7.0)]
        asyncio.run(client.benchmark_trace(made, trace, "m", pbar=False))
        times = [at for at, _ in server.asked]
        most = []
        for concurrency in (None, 2):
            server.most = 0
            given = {"pbar": False, "concurrency": concurrency}
            asyncio.run(client.benchmark_one_batch(made, ["aa"] * 5, 2, "m", **given))
            most.append(server.most)
        empty = asyncio.run(client.benchmark_trace(made, [], "m", pbar=False))
        return [[at - times[0] for at in times], most, empty]


def judge_requests_are_sent_in_time_and_in_turns(seed, got):
    times, most, empty = got
    truth(times[2] < 5, "times are counted from the first one's", times)
    truth(times[2] >= 0.29, "none is sent before its time", times)
    equal(most, [5, 2], "requests at once, without a limit and with one")
    equal(empty, [], "results of no requests")


def probe_bars_and_counts(seed):
    import logging

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    with served() as (client, server), contextlib.redirect_stderr(io.StringIO()) as shown:
        logger = logging.getLogger("minisgl.benchmark.console")
        logger.addHandler(handler)
        console = client.make_console(3, 6)
        batch = client.benchmark_one_batch(
            server.client(), ["aa", "bare", "full"], 2, "m", pbar=console
        )
        with console.log_stats():
            asyncio.run(batch)
        asyncio.run(client.benchmark_one(server.client(), "aa", 2, "m", pbar=True))
        quiet = client.make_console(1, 1, use_pbar=False)
        with quiet.log_stats():
            pass
        logger.removeHandler(handler)
    bars = (console.input_pbar, console.output_pbar, console.prefill_pbar, console.decode_pbar)
    counters = (console.inflight_counter, console.queue_counter)
    return {
        "bars": [[bar.n, bar.total] for bar in bars],
        "counts": [[each.current, each.history_max] for each in counters],
        "said": said,
        "labels": [word in shown.getvalue() for word in ("sent", "answered", "chunks", "tokens")],
        "disabled": [console.disabled, quiet.disabled],
    }


def judge_bars_and_counts(seed, got):
    equal(got["bars"], [[3, 3], [3, 3], [3, 3], [4, 6]], "sent, answered, first chunks, tokens")
    equal(got["counts"], [[0, 3], [0, 3]], "under way and without a chunk: now, and at most")
    lines = [f"at most {n} requests at once, {n} without a token" for n in (3, 1)]
    equal(got["said"], lines, "what is logged of consoles with bars")
    equal(got["labels"], [True] * 4, "labels of the bars")
    equal(got["disabled"], [False, True], "whether bars are off")


def commanded(*words: str, models: Any = None, server_url: str = "u") -> dict[str, Any]:
    """What the command does, with a server that has these models."""
    from minisgl.benchmark import load

    out, err = io.StringIO(), io.StringIO()
    with (
        served() as (client, server),
        mock.patch.object(load, "load_tokenizer", lambda name: tokenizer_of(name)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        if models is not None:
            server.models = models
        try:
            status = client.main(["--no-progress", "--url", server_url, *words])
        except SystemExit as end:
            status = end.code
    return {
        "status": status,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "asked": [
            [fields["model"], fields["messages"][0]["content"]] for _, fields in server.asked
        ],
        "times": [at for at, _ in server.asked],
        "key": server.keys[-1] if server.keys else None,
    }


def tokenizer_of(name: str) -> LetterTokenizer:
    if name not in ("o/served", "o/letters"):
        raise OSError("not here")
    return LetterTokenizer()


def probe_the_command_measures_and_writes(seed):
    with tempfile.TemporaryDirectory() as folder:
        file, trace = Path(folder) / "out.json", Path(folder) / "trace"
        size = ["--num-requests", "3", "--input-len", "4", "--output-len", "2"]
        first = commanded(*size, "--json", str(file), "--api-key", "k")
        written = json.loads(file.read_text())
        files = sorted(path.name for path in Path(folder).iterdir())
        again, other = commanded(*size), commanded(*size, "--seed", "1")
        timed = commanded(*size, "--rate", "20")
        line = {"input_length": 3, "output_length": 2, "hash_ids": []}
        trace.write_text("\n".join(json.dumps({"timestamp": at, **line}) for at in (5, 6, 7)))
        kind = ["--trace", str(trace), "--trace-kind", "qwen", "--scale", "0.1"]
        traced = [commanded(*kind), commanded(*kind, "--num-requests", "2")]
        named = commanded(
            *size, "--model", "mine", "--tokenizer", "o/letters", models=APIError("?")
        )
    return [first, written, files, [again["asked"], other["asked"]], timed, traced, named]


def judge_the_command_measures_and_writes(seed, got):
    first, written, files, (again, other), timed, traced, named = got
    equal([first["status"], first["err"]], [0, ""], "status and errors")
    truth("3 answered, 0 failed" in first["out"], "the table is printed", first["out"])
    equal(first["key"], ["u", "k", 0], "address, key, tries")
    equal([len(prompt.split()) for _, prompt in first["asked"]], [4] * 3, "words of the prompts")
    equal([model for model, _ in first["asked"]], ["o/served"] * 3, "the model the server names")
    equal([again == first["asked"], other == again], [True, False], "prompts come from the seed")
    equal([written["model"], written["requests"]], ["o/served", 3], "what is written")
    equal([row[:2] for row in written["answers"]], [[9, 2]] * 3, "lengths that are written")
    equal(files, ["out.json"], "files that are written")
    truth(timed["times"][2] > timed["times"][0], "with a rate, at random times", timed["times"])
    equal([len(each["asked"]) for each in traced], [3, 2], "a trace's requests, all and the first")
    gaps = [b - a for a, b in zip(traced[0]["times"], traced[0]["times"][1:], strict=False)]
    truth(all(0.08 < gap < 0.9 for gap in gaps), "a trace's times, scaled by 0.1", gaps)
    equal([model for model, _ in named["asked"]], ["mine"] * 3, "a model that is given")


BAD: dict[str, tuple[list[str], Any, str]] = {
    "no server": ([], APIConnectionError("refused"), "no server answers at u"),
    "no model": ([], [], "no model to ask for; give --model NAME"),
    "no tokenizer": ([], ["else"], "no tokenizer at 'else'; give --tokenizer PATH"),
    "no trace": (["--trace", "/no/file", "--trace-kind", "qwen"], None, "/no/file: No such file"),
}
UNFIT = {
    "--num-requests 0": "'0' is not a whole number above 0",
    "--input-len x": "'x' is not a whole number above 0",
    "--rate -1": "'-1' is not a number above 0",
    "--rate inf": "'inf' is not a number above 0",
    "--scale 2": "--scale needs --trace FILE",
    "--trace-kind qwen": "--trace-kind needs --trace FILE",
    "--trace f": "--trace needs --trace-kind",
    "--trace f --trace-kind qwen --rate 1": "--rate can't be given with --trace",
    "--json /no/folder/f": "the folder of /no/folder/f isn't there",
}


def probe_what_the_command_can_not_do_is_one_sentence(seed):
    bad = {name: commanded(*words, models=models) for name, (words, models, _) in BAD.items()}
    unfit = {line: commanded(*line.split()) for line in UNFIT}
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty"
        empty.touch()
        nothing = commanded("--trace", str(empty), "--trace-kind", "mooncake")
    with served() as (client, server), mock.patch.object(client, "_run") as run:
        failed = client.RawResult(None, 0, "", [0.0], "HTTP 500")
        run.return_value = None
        answers: list[int] = []
        for results in ([failed], []):
            with (
                mock.patch.object(client.asyncio, "run", lambda _, r=results: ("m", r)),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                answers.append(client.main([]))
        server.models = []
        unnamed = error_of(lambda: asyncio.run(client.get_model_name(server.client())))
    return [bad, unfit, nothing, answers, unnamed]


def judge_what_the_command_can_not_do_is_one_sentence(seed, got):
    bad, unfit, nothing, answers, unnamed = got
    for name, (_, _, sentence) in BAD.items():
        equal(bad[name]["status"], 2, f"status with {name}")
        err = bad[name]["err"]
        truth(err.startswith("The benchmark stopped: ") and sentence in err, sentence, err)
    for line, sentence in UNFIT.items():
        equal(unfit[line]["status"], 2, f"status with {line}")
        truth(sentence in unfit[line]["err"], sentence, unfit[line]["err"])
    truth("holds no request" in nothing["err"], "an empty trace is named", nothing["err"])
    equal(answers, [1, 0], "status when a request failed, and when none did")
    refused(unnamed, "a server without models", "names no model", kind="ValueError")


def probe_the_client_runs_as_a_program(seed):
    import runpy

    err = io.StringIO()
    with (
        served() as (client, server),
        mock.patch.object(sys, "argv", ["client", "--no-progress", "--url", "u"]),
        contextlib.redirect_stderr(err),
    ):
        server.models = []
        sys.modules.pop(client.__name__)
        try:
            runpy.run_module(client.__name__, run_name="__main__")
        except SystemExit as end:
            return [end.code, err.getvalue()]
    return [None, err.getvalue()]


def judge_the_client_runs_as_a_program(seed, got):
    status, err = got
    equal(status, 2, "status of python -m minisgl.benchmark.client without a model to ask for")
    truth(err.startswith("The benchmark stopped: "), "why is said", err)
