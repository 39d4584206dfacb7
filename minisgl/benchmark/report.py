"""A run in numbers: throughput, and how latencies spread over its requests.

TTFT, time to first token: from sending to the first chunk with content; one value a request.
ITL, inter-token latency: from one chunk to the next; one value for each chunk after the first.
TPOT, time per output token: (last - first) / (tokens - 1), where first and last are the times of
the first and the last chunk with content and tokens is the server's own count (usage); one value
for each request with two tokens or more. A chunk may carry several tokens, or a token none of the
text: then TPOT is the fair number and ITL tells what a reader sees.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from minisgl.utils import UNSET

from .results import BenchmarkResult, BenchOneResult, RawResult


@dataclass(frozen=True)
class Spread:
    """Values in seconds by their mean, percentiles and maximum."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread | None:
        """Return the spread, with percentiles between two values; None when there are none."""
        if not values:
            return None
        p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
        return Spread(float(np.mean(values)), p50, p95, p99, max(values))


@dataclass(frozen=True)
class Summary:
    """What a run comes to. failures: each cause, and how many requests it ended.

    seconds: from the first request's sending to the last chunk. Tokens are those of answered
    requests alone.
    """

    requests: int
    failures: dict[str, int]
    input_tokens: int
    output_tokens: int
    seconds: float
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None

    @property
    def answered(self) -> int:
        return self.requests - sum(self.failures.values())

    def as_json(self) -> dict[str, Any]:
        """Return the fields as plain data, with the rates."""
        return {
            **asdict(self),
            "requests_per_second": self.per_second(self.answered),
            "output_tokens_per_second": self.per_second(self.output_tokens),
        }

    def per_second(self, count: int) -> float:
        return count / self.seconds if self.seconds else 0.0


def summarize(raw_data: Sequence[RawResult]) -> Summary:
    """Return the summary of a run's requests; a prompt that nobody has counted has 0 tokens."""
    answered = [one for one in raw_data if one.error is None]
    chunks = [one.tics[1:] for one in answered]
    tics = [tic for one in raw_data for tic in one.tics]
    return Summary(
        requests=len(raw_data),
        failures=dict(collections.Counter(one.error for one in raw_data if one.error is not None)),
        input_tokens=sum(one.input_len or 0 for one in answered),
        output_tokens=sum(one.output_len for one in answered),
        seconds=max(tics) - min(tics) if tics else 0.0,
        ttft=Spread.of([one.tics[1] - one.tics[0] for one in answered if len(one.tics) > 1]),
        tpot=Spread.of(
            [
                (times[-1] - times[0]) / (one.output_len - 1)
                for one, times in zip(answered, chunks, strict=True)
                if times and one.output_len > 1
            ]
        ),
        itl=Spread.of([b - a for times in chunks for a, b in zip(times, times[1:], strict=False)]),
    )


def table(run: Summary) -> str:
    """Return the summary as text, latencies in milliseconds."""
    totals: dict[str, str] = {
        "requests": f"{run.answered} answered, {sum(run.failures.values())} failed",
        "input tokens": f"{run.input_tokens}",
        "output tokens": f"{run.output_tokens}",
        "wall time": f"{run.seconds:.3f} s",
        "output tokens/s": f"{run.per_second(run.output_tokens):.1f}",
        "requests/s": f"{run.per_second(run.answered):.2f}",
    }
    lines = [f"{label:<18}{value}" for label, value in totals.items()]
    columns = ("mean", "p50", "p95", "p99", "max")
    lines += ["", f"{'milliseconds':<18}" + "".join(f"{name:>10}" for name in columns)]
    for label, spread in (("TTFT", run.ttft), ("TPOT", run.tpot), ("inter-token", run.itl)):
        cells = [f"{1000 * getattr(spread, name):.2f}" if spread else "-" for name in columns]
        lines.append(f"{label:<18}" + "".join(f"{cell:>10}" for cell in cells))
    if run.failures:
        lines += ["", "Failed requests:"]
        lines += [f"  {count} x {cause}" for cause, count in run.failures.items()]
    return "\n".join(lines)


@overload
def process_benchmark_results(raw_data: list[RawResult], tokenizer: Any) -> BenchmarkResult: ...


@overload
def process_benchmark_results(raw_data: list[RawResult]) -> None: ...


def process_benchmark_results(
    raw_data: list[RawResult], tokenizer: Any = UNSET
) -> BenchmarkResult | None:
    """Print the table; with a tokenizer, return the numbers of the answered requests too.

    tokenizer: counts the prompts that nobody has counted yet.
    """
    print(table(summarize(raw_data)))
    return None if tokenizer is UNSET else _numbers(raw_data, tokenizer)


def write_results(file: Path, model: str, raw_data: Sequence[RawResult]) -> None:
    """Write the summary and the numbers of each answered request, in whole or not at all."""
    answers = _numbers(raw_data, None).as_json()
    told = {"model": model, **summarize(raw_data).as_json(), "answers": answers}
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    part.replace(file)


def _numbers(raw_data: Sequence[RawResult], tokenizer: Any) -> BenchmarkResult:
    """Return the answered requests in numbers; without a tokenizer an uncounted prompt is 0."""

    def length(one: RawResult) -> int:
        if one.input_len is not None or tokenizer is None:
            return one.input_len or 0
        return len(tokenizer.encode(one.message, add_special_tokens=False))

    answered = [one for one in raw_data if one.error is None]
    return BenchmarkResult([BenchOneResult(o.tics, length(o), o.output_len) for o in answered])
