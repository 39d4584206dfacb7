"""A benchmark of any server with OpenAI's API, through OpenAI's own client.

    python -m minisgl.benchmark.client --url http://127.0.0.1:1919/v1 --num-requests 64

Every request is a chat that streams, with ignore_eos, so that an answer has the length asked for.
report.py says how each number is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .answers import Answer
from .arguments import parse
from .console import Console, Counter, make_console
from .load import make_load
from .prompts import generate_prompt
from .report import process_benchmark_results, write_results
from .results import BenchmarkResult, BenchOneResult, RawResult
from .traces import BenchmarkTrace, read_mooncake_trace, read_qwen_trace, scale_traces

try:
    from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI
except ImportError:
    _missing = "minisgl.benchmark.client needs OpenAI's client: pip install openai"
    raise (SystemExit if __name__ == "__main__" else ImportError)(_missing) from None

__all__ = [
    "BenchOneResult",
    "BenchmarkResult",
    "BenchmarkTrace",
    "Console",
    "Counter",
    "RawResult",
    "benchmark_one",
    "benchmark_one_batch",
    "benchmark_trace",
    "generate_prompt",
    "get_model_name",
    "make_console",
    "process_benchmark_results",
    "read_mooncake_trace",
    "read_qwen_trace",
    "scale_traces",
]


async def benchmark_one(
    client: AsyncOpenAI,
    prompt: str,
    output_length: int,
    model: str,
    *,
    pbar: Console | bool = True,
    extra_body: dict[str, Any] | None = None,
    input_length: int | None = None,
) -> RawResult:
    """Send one request and read its answer; an error becomes the result's, and is not raised.

    extra_body: more fields of the request, beside ignore_eos. Token counts are the server's own
    (usage); without them, input_length and the number of chunks.
    """
    is_own = isinstance(pbar, bool)
    console = make_console(1, output_length, pbar) if isinstance(pbar, bool) else pbar
    with console.log_stats() if is_own else nullcontext(), console.inflight():
        answer, failure = Answer(console, input_length), None
        try:
            stream = await client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=output_length,
                temperature=0.0,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"ignore_eos": True, **(extra_body or {})},
            )
            async for chunk in stream:
                answer.take(chunk)
        except Exception as error:  # of whatever kind: one request's failure isn't the run's
            failure = _reason(error)
        return answer.end(prompt, failure)


def _reason(error: Exception) -> str:
    """One line that says why a request failed."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, APIStatusError):
        body = error.body if isinstance(error.body, dict) else {}
        text = f"HTTP {error.status_code}: {body.get('message') or error.message}"
    elif isinstance(error, APIConnectionError):
        text = f"no connection: {error.__cause__ or error.message}"
    return " ".join(text.split())[:300]


async def benchmark_one_batch(
    client: AsyncOpenAI,
    prompts: list[str],
    output_lengths: list[int] | int,
    model: str,
    *,
    extra_body: dict[str, Any] | None = None,
    input_lengths: list[int | None] | None = None,
    pbar: Console | bool = True,
    concurrency: int | None = None,
) -> list[RawResult]:
    """Send all requests at once, or as many at a time as concurrency says; results in order."""
    if isinstance(output_lengths, int):
        output_lengths = [output_lengths] * len(prompts)
    traces = [
        BenchmarkTrace(0.0, prompt, wanted, length)
        for prompt, wanted, length in zip(
            prompts, output_lengths, input_lengths or [None] * len(prompts), strict=True
        )
    ]
    return await benchmark_trace(
        client, traces, model, pbar=pbar, extra_body=extra_body, concurrency=concurrency
    )


async def benchmark_trace(
    client: AsyncOpenAI,
    msgs: list[BenchmarkTrace],
    model: str,
    *,
    pbar: Console | bool = True,
    extra_body: dict[str, Any] | None = None,
    concurrency: int | None = None,
) -> list[RawResult]:
    """Send each request at its time, counted from the earliest one's; results in order of msgs.

    concurrency: most requests at once; one whose time has come waits for its turn.
    """
    is_own = isinstance(pbar, bool)
    if isinstance(pbar, bool):
        pbar = make_console(len(msgs), sum(msg.output_length for msg in msgs), pbar)
    console, turns = pbar, asyncio.Semaphore(concurrency or max(len(msgs), 1))
    first = min((msg.timestamp for msg in msgs), default=0.0)

    async def send(msg: BenchmarkTrace) -> RawResult:
        await asyncio.sleep(msg.timestamp - first)
        async with turns:
            return await benchmark_one(
                client,
                msg.message,
                msg.output_length,
                model,
                pbar=console,
                extra_body=extra_body,
                input_length=msg.input_length,
            )

    with console.log_stats() if is_own else nullcontext():
        return await asyncio.gather(*(send(msg) for msg in msgs))


async def get_model_name(client: AsyncOpenAI) -> str:
    """Return the first model that the server names; ValueError when it names none."""
    async for model in client.models.list():
        return model.id
    raise ValueError(f"{client.base_url} names no model; give --model NAME")


async def _served_model(client: AsyncOpenAI, wanted: str | None) -> str:
    """The model to ask for; ValueError when the server can't be asked."""
    try:
        served = await get_model_name(client)
    except APIConnectionError as error:
        raise ValueError(f"no server answers at {client.base_url} ({_reason(error)})") from None
    except (APIError, ValueError) as error:
        if wanted is None:
            raise ValueError(f"no model to ask for; give --model NAME ({_reason(error)})") from None
        return wanted
    return wanted or served


async def _run(args: argparse.Namespace) -> tuple[str, list[RawResult]]:
    """The model's name, and every request's result."""
    async with AsyncOpenAI(base_url=args.url, api_key=args.api_key, max_retries=0) as client:
        model = await _served_model(client, args.model)
        load = make_load(args, model)
        results = await benchmark_trace(
            client, load, model, pbar=not args.no_progress, concurrency=args.concurrency
        )
    return model, results


def _sentence(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 when a request failed, 2 when nothing could be measured."""
    args = parse(argv)
    try:
        model, results = asyncio.run(_run(args))
        process_benchmark_results(results)
        if args.json is not None:
            write_results(Path(args.json), model, results)
    except (OSError, ValueError) as error:
        print(f"The benchmark stopped: {_sentence(error)}.", file=sys.stderr)
        return 2
    return int(any(one.error is not None for one in results))


if __name__ == "__main__":
    sys.exit(main())
