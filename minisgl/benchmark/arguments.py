"""The benchmark's command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

DEFAULTS = {"num_requests": 64, "input_len": 128, "output_len": 64}
"""Without a trace. A trace has lengths of its own, and num_requests is all of it."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; one that doesn't go with another ends the program with one sentence."""
    parser = argparse.ArgumentParser(
        prog="python -m minisgl.benchmark.client",
        description="Measure an OpenAI-compatible server: throughput, TTFT, TPOT, ITL.",
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:1919/v1", help="the API's root, with /v1")
    add("--model", help="by default the first that the server names")
    add("--tokenizer", help="folder or hub name; by default the model's name")
    add("--num-requests", type=_count, help="64, or the trace's first N")
    add("--input-len", type=_count, help="tokens of each prompt (128)")
    add("--output-len", type=_count, help="tokens of each answer (64)")
    add("--concurrency", type=_count, help="most requests at once; by default all")
    add("--rate", type=_above_zero, help="requests/s at random times; by default all at once")
    add("--trace", help="recorded traffic: JSON lines")
    add("--trace-kind", choices=("qwen", "mooncake"), help="its format")
    add("--scale", type=_above_zero, help="stretches the trace's times; 0.5 is twice the load (1)")
    add("--seed", type=int, default=0, help="of prompts and times (0)")
    add("--api-key", default="none", help="sent as the bearer token")
    add("--json", help="file for the numbers")
    add("--no-progress", action="store_true", help="no bars")
    args = parser.parse_args(argv)
    problem = _conflict(args)
    if problem:
        parser.error(problem)
    for name, value in DEFAULTS.items():
        if args.trace is None and getattr(args, name) is None:
            setattr(args, name, value)
    return args


def _conflict(args: argparse.Namespace) -> str | None:
    given = {name.replace("_", "-") for name, value in vars(args).items() if value is not None}
    if args.json is not None and not Path(args.json).absolute().parent.is_dir():
        return f"--json: the folder of {args.json} isn't there."
    if args.trace is None:
        lonely = sorted(given & {"trace-kind", "scale"})
        return f"--{lonely[0]} needs --trace FILE." if lonely else None
    if args.trace_kind is None:
        return "--trace needs --trace-kind qwen or mooncake."
    clashing = sorted(given & {"rate", "input-len", "output-len"})
    return f"--{clashing[0]} can't be given with --trace, which has its own." if clashing else None


def _checked(kind: Callable[[str], float], text: str, wanted: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return value


def _count(text: str) -> int:
    return int(_checked(int, text, "a whole number above 0"))


def _above_zero(text: str) -> float:
    return _checked(float, text, "a number above 0")
