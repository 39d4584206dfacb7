"""Chapter 15: the benchmark's numbers, and the recorded traffic that it sends."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pairs import close, equal, error_of, refused, truth

PLACES = {"p50": 50, "p95": 95, "p99": 99}


class LetterTokenizer:
    """One token for each word of two letters; the ids are the words in order."""

    words = [a + b for a in "abcdefghij" for b in "abcdefghij"]

    def __len__(self) -> int:
        return len(self.words)

    def __call__(self, texts: Sequence[str], **options: bool) -> dict[str, Any]:
        return {"input_ids": [self.encode(text) for text in texts]}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [self.words.index(word) for word in text.split()]

    def batch_decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [" ".join(self.words[i] for i in ids) for ids in rows]


def latencies(seed: int, count: int) -> list[float]:
    return np.random.default_rng(seed).exponential(0.1, count).tolist()


def probe_percentiles_are_between_values(seed):
    from minisgl.benchmark.report import Spread

    drawn = [Spread.of(latencies(seed, count)) for count in (1, 2, 7, 1000)]
    return [[vars(spread) for spread in drawn], Spread.of([])]


def judge_percentiles_are_between_values(seed, got):
    spreads, nothing = got
    for spread, count in zip(spreads, (1, 2, 7, 1000), strict=True):
        values = latencies(seed, count)
        want = {name: float(np.percentile(values, at)) for name, at in PLACES.items()}
        want |= {"mean": sum(values) / count, "max": max(values)}
        close(spread, want, 1e-12, f"spread of {count} values")
    equal(nothing, None, "spread of no values")


def probe_latencies_of_a_run(seed):
    from minisgl.benchmark.report import summarize, table
    from minisgl.benchmark.results import RawResult

    run = [
        RawResult(5, 7, "two tokens a chunk", [1.0, 3.0, 3.5, 4.5]),
        RawResult(6, 1, "one token", [2.0, 3.0]),
        RawResult(None, 2, "a token without text", [2.0]),
        RawResult(9, 4, "refused", [0.5, 9.0], "HTTP 400: too long"),
        RawResult(9, 0, "refused too", [0.6], "HTTP 400: too long"),
    ]
    return [summarize(run).as_json(), table(summarize(run)), table(summarize([]))]


def judge_latencies_of_a_run(seed, got):
    told, text, nothing = got
    equal([told["input_tokens"], told["output_tokens"]], [11, 10], "tokens of answered requests")
    equal([told["requests"], told["failures"]], [5, {"HTTP 400: too long": 2}], "failures by cause")
    close(told["seconds"], 8.5, 1e-9, "wall time, from the first sending to the last chunk")
    rates = [told["requests_per_second"], told["output_tokens_per_second"]]
    close(rates, [3 / 8.5, 10 / 8.5], 1e-9, "requests and output tokens a second")
    close([told["ttft"]["mean"], told["ttft"]["max"]], [1.5, 2.0], 1e-9, "TTFT: mean and maximum")
    close([told["itl"]["mean"], told["itl"]["max"]], [0.75, 1.0], 1e-9, "gaps between chunks")
    close([told["tpot"]["mean"], told["tpot"]["max"]], [0.25, 0.25], 1e-9, "TPOT of one request")
    for part in ("3 answered, 2 failed", "2 x HTTP 400: too long", "1500.00", "250.00"):
        truth(part in text, f"the table has {part!r}", text)
    truth("0 answered, 0 failed" in nothing, "a run of no requests has a table", nothing)


def probe_results_as_json(seed):
    from minisgl.benchmark.report import process_benchmark_results
    from minisgl.benchmark.results import BenchmarkResult, BenchOneResult, RawResult

    one = BenchOneResult([0.5, 1.25, 2.0], 3, 4)
    run = BenchmarkResult([one, BenchOneResult([7.0], 1, 0)])
    raw = [
        RawResult(None, 2, "aa ab ac", [0.0, 1.0]),
        RawResult(8, 2, "aa", [0.0, 1.0]),
        RawResult(8, 0, "aa", [0.0], "gone"),
    ]
    counted = process_benchmark_results(raw, LetterTokenizer())
    return {
        "one": one.as_json(),
        "run": run.as_json(),
        "same": BenchmarkResult.from_json(json.loads(json.dumps(run.as_json()))) == run,
        "counted": counted.as_json(),
        "without_tokenizer": process_benchmark_results(raw),
        "short": error_of(lambda: BenchOneResult.from_json([1, 2])),
    }


def judge_results_as_json(seed, got):
    equal(got["one"], [3, 4, 0.5, 1.25, 2.0], "one request: both lengths, then its times")
    equal(got["run"], [got["one"], [1, 0, 7.0]], "a run: its requests")
    equal(got["same"], True, "a run that went through JSON is the same")
    equal(got["counted"], [[3, 2, 0.0, 1.0], [8, 2, 0.0, 1.0]], "answered requests, counted")
    equal(got["without_tokenizer"], None, "numbers without a tokenizer")
    refused(got["short"], "a result without times", "two lengths and a time", kind="ValueError")


def read(kind: str, lines: Sequence[str], **more: Any) -> list[Any]:
    """[timestamp, input_length, output_length, words] of each request of a trace file."""
    from minisgl.benchmark import traces

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        reader = getattr(traces, f"read_{kind}_trace")
        found = reader(str(file), LetterTokenizer(), **more)
    return [[t.timestamp, t.input_length, t.output_length, t.message.split()] for t in found]


def entry(timestamp: Any, length: Any, output: Any, hashes: Any = ()) -> str:
    named = {"timestamp": timestamp, "input_length": length, "output_length": output}
    return json.dumps({"chat_id": 1, "type": "text", "turn": 1, **named, "hash_ids": hashes})


def probe_traces_of_both_kinds(seed):
    qwen = [entry(0.5, 40, 3, [7, 8, 9]), "", entry(2, 20, 1, [7, 9]), entry(3, 20, 5)]
    mooncake = [entry(500, 600, 3, [7, 8]), entry(2000, 520, 1, [7, 9])]
    return {
        "qwen": read("qwen", qwen),
        "first": read("qwen", qwen, n=2),
        "mooncake": read("mooncake", mooncake),
        "dummy": read("qwen", [entry(0, 32, 1, [7, 8])] * 2, dummy=True),
    }


def judge_traces_of_both_kinds(seed, got):
    equal([row[:3] for row in got["qwen"]], [[0.5, 40, 3], [2, 20, 1], [3, 20, 5]], "Qwen's trace")
    equal(got["first"], got["qwen"][:2], "the first two of Qwen's trace")
    equal([row[:3] for row in got["mooncake"]], [[0.5, 600, 3], [2, 520, 1]], "Mooncake's trace")
    for kind, block in (("qwen", 16), ("mooncake", 512)):
        a, b = (row[3] for row in got[kind][:2])
        equal([len(a), len(b)], [row[1] for row in got[kind][:2]], f"words of {kind}'s prompts")
        equal(a[:block], b[:block], f"the block that two prompts of {kind}'s trace share")
        truth(a[block : block + 4] != b[block : block + 4], f"{kind}'s next blocks differ", b)
    one, other = (row[3] for row in got["dummy"])
    truth(one[:16] != other[:16], "without hash_ids no two prompts begin alike", one)


BAD = {
    "not JSON": "{",
    "a request is a JSON object": "[1]",
    "timestamp must be a number, not None": "{}",
    "timestamp must be a number, not True": entry(True, 1, 1),
    "timestamp must be a number, not nan": entry(float("nan"), 1, 1),
    "input_length must be a whole number above 0, not '5'": entry(0, "5", 1),
    "input_length must be a whole number above 0, not 0": entry(0, 0, 1),
    "output_length must be a whole number above 0, not None": entry(0, 1, None),
    "hash_ids must be a list of whole numbers": entry(0, 1, 1, "7"),
}


def probe_a_malformed_line_is_named(seed):
    return [
        error_of(lambda line=line: read("qwen", [entry(0, 1, 1), line])) for line in BAD.values()
    ]


def judge_a_malformed_line_is_named(seed, got):
    for error, (sentence, line) in zip(got, BAD.items(), strict=True):
        refused(error, f"the line {line}", "trace.jsonl, line 2: ", sentence, kind="ValueError")


def probe_scaled_times(seed):
    from minisgl.benchmark.traces import BenchmarkTrace, scale_traces

    traces = [BenchmarkTrace(at, f"{at}", 3, 4) for at in (9.0, 7.0, 8.5)]
    scaled = [[vars(one) for one in scale_traces(traces, scale)] for scale in (1.0, 0.5, 0)]
    wrong = [error_of(lambda s=s: scale_traces(traces, s)) for s in (-1, float("nan"))]
    return [scaled, scale_traces([], 2.0), [one.timestamp for one in traces], wrong]


def judge_scaled_times(seed, got):
    scaled, nothing, before, wrong = got
    for rows, scale in zip(scaled, (1.0, 0.5, 0), strict=True):
        times = [row["timestamp"] for row in rows]
        close(times, [0.0, 1.5 * scale, 2.0 * scale], 1e-9, f"times scaled by {scale}")
        equal([row["message"] for row in rows], ["7.0", "8.5", "9.0"], "requests in order of time")
        equal([row["output_length"] for row in rows], [3] * 3, "output lengths")
        equal([row["input_length"] for row in rows], [4] * 3, "input lengths")
    equal(nothing, [], "a trace of no requests, scaled")
    equal(before, [9.0, 7.0, 8.5], "the trace that was given")
    for error in wrong:
        refused(error, "a scale that is none", "0 or more", kind="ValueError")


def probe_a_prompt_has_the_tokens_asked_for(seed):
    from minisgl.benchmark.prompts import generate_prompt

    tokenizer = LetterTokenizer()
    lengths = [len(tokenizer.encode(generate_prompt(tokenizer, n))) for n in (1, 2, 300)]
    return [lengths, error_of(lambda: generate_prompt(tokenizer, 0))]


def judge_a_prompt_has_the_tokens_asked_for(seed, got):
    lengths, empty = got
    equal(lengths, [1, 2, 300], "tokens of prompts")
    refused(empty, "a prompt of no tokens", "at least one token", kind="ValueError")


def probe_a_count_keeps_its_highest(seed):
    from minisgl.benchmark.console import Counter

    counter, seen = Counter(), []
    for step in (1, 2, -1, 1, -3, 1):
        counter.inc(step) if step > 0 else counter.dec(-step)
        seen.append([counter.current, counter.history_max])
    return seen


def judge_a_count_keeps_its_highest(seed, got):
    equal(got, [[1, 1], [3, 3], [2, 3], [3, 3], [0, 3], [1, 3]], "count and its highest")


def probe_without_openai_the_import_says_what_to_install(seed):
    import importlib
    import sys
    from unittest import mock

    sys.modules.pop("minisgl.benchmark.client", None)
    with mock.patch.dict(sys.modules, {"openai": None}):
        return error_of(lambda: importlib.import_module("minisgl.benchmark.client"))


def judge_without_openai_the_import_says_what_to_install(seed, got):
    refused(got, "an import without openai", "pip install openai", kind="ImportError")
