"""Chapter 00's engine with and without its cache, at three lengths: what its page shows.

    python tools/bench/cache.py [--threads N] [--rounds N] [--write]

Both ways run in turns on the same prompt; the medians count, and each includes the prompt.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "steps" / "00-minimal-engine" / "files")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from bench.turns import medians  # noqa: E402

COLUMNS = [
    "Prompt + output",
    "Computed, cache",
    "Computed, no cache",
    "Cache (tokens/s)",
    "No cache (tokens/s)",
    "Ratio",
]
HALVES = (8, 32, 128)


def generate(engine: Any, ids: list[int], use_cache: bool) -> None:
    """As many new tokens as the prompt has."""
    for _ in engine.generate(ids, len(ids), use_cache):
        pass


def row(engine: Any, half: int, rounds: int) -> list[result.Cell]:
    """half tokens after a prompt of half tokens. Computed: tokens that pass through the model."""
    ids = list(range(1000, 1000 + half))
    ways = [partial(generate, engine, ids, use_cache) for use_cache in (True, False)]
    cached, uncached = (half / seconds for seconds in medians(ways, rounds))
    computed = (2 * half - 1, half * half + half * (half - 1) // 2)
    counts = [f"{count:,}" for count in computed]
    return [f"{half} + {half}", *counts, cached, uncached, cached / uncached]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--write", action="store_true", help="keep the result in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    module = importlib.import_module("minimal_engine")
    engine = module.MinimalEngine(str(ROOT / "models" / "smollm2-135m"))
    rows = [row(engine, half, args.rounds) for half in HALVES]
    result.show(COLUMNS, rows)
    if args.write:
        command = f"python tools/bench/cache.py --threads {args.threads} --write"
        print(f"written to {result.write('chapter00-cache', command, COLUMNS, rows)}")


if __name__ == "__main__":
    main()
