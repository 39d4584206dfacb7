"""The load that the command line asks for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minisgl.server.args import resolve_model
from minisgl.utils import load_tokenizer

from .prompts import generate_prompt
from .traces import BenchmarkTrace, read_mooncake_trace, read_qwen_trace, scale_traces

if TYPE_CHECKING:
    import argparse

_READERS = {"qwen": read_qwen_trace, "mooncake": read_mooncake_trace}


def make_load(args: argparse.Namespace, model: str) -> list[BenchmarkTrace]:
    """Return the requests to send. Raises ValueError or OSError for what can't be read."""
    tokenizer = _tokenizer(args.tokenizer or model)
    if args.trace is None:
        return _drawn(args, tokenizer)
    traces = _READERS[args.trace_kind](args.trace, tokenizer, args.num_requests)
    if not traces:
        raise ValueError(f"{args.trace} holds no request")
    return scale_traces(traces, args.scale or 1.0)


def _drawn(args: argparse.Namespace, tokenizer: Any) -> list[BenchmarkTrace]:
    """Requests of one shape, at once or as a Poisson process: no client knows of another."""
    rng = random.Random(args.seed)
    traces, now = [], 0.0
    for _ in range(args.num_requests):
        prompt = generate_prompt(tokenizer, args.input_len, rng)
        traces.append(BenchmarkTrace(now, prompt, args.output_len, args.input_len))
        if args.rate is not None:
            now += rng.expovariate(args.rate)
    return traces


def _tokenizer(name: str) -> Any:
    """That of a folder, of a name under models/ as the server takes it, or of a hub name."""
    try:
        return load_tokenizer(name if Path(name).is_dir() else resolve_model(name))
    except (OSError, ValueError):
        raise ValueError(f"no tokenizer at {name!r}; give --tokenizer PATH") from None
