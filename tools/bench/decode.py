"""Decode speed of chapter 06's engine beside transformers, and beside what the memory allows.

    python tools/bench/decode.py [--model NAME] [--threads N] [--rounds N] [--write]

Both run in one process with the same threads, in turns; the medians count. A decode step is the
time from one step's logits to the next one's, so that prompts and set-up are left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "steps"), str(ROOT / "tools")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from bench.bandwidth import packed_matvec, plain_read  # noqa: E402
from bench.engine_side import EngineSide  # noqa: E402
from bench.transformers_side import TransformersSide  # noqa: E402

COLUMNS = ["batch", "engine tok/s", "transformers tok/s", "ratio", "tokens", "share of the bound"]
LENGTHS = {1: [32], 8: [16, 24, 32, 48, 64, 80, 96, 128]}


def prompts_of(batch: int, vocab_size: int) -> list[list[int]]:
    """Random prompts of the batch's fixed lengths."""
    generator = torch.Generator().manual_seed(batch)
    return [
        torch.randint(0, vocab_size, (length,), generator=generator).tolist()
        for length in LENGTHS[batch]
    ]


def per_second(stamps: list[float], batch: int) -> float:
    """Tokens per second between the first and the last of the steps' time stamps."""
    return batch * (len(stamps) - 1) / (stamps[-1] - stamps[0])


def compare(
    sides: tuple[Any, Any], batch: int, tokens: int, rounds: int, bound: float
) -> list[result.Cell]:
    """One row of the table: both sides in turns on the same prompts."""
    prompts = prompts_of(batch, sides[0].vocab_size)
    speeds: tuple[list[float], list[float]] = ([], [])
    answers: list[list[list[int]]] = [[], []]
    for _ in range(rounds + 1):  # the first round warms up
        for i, side in enumerate(sides):
            answers[i], stamps = side.run(prompts, tokens)
            speeds[i].append(per_second(stamps, batch))
    ours, theirs = (statistics.median(speed[1:]) for speed in speeds)
    equal = "equal" if answers[0] == answers[1] else "differ"
    share = f"{sides[0].weight_bytes * ours / batch / bound:.0%}" if batch == 1 else ""
    return [batch, ours, theirs, ours / theirs, equal, share]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=65)
    parser.add_argument(
        "--write", action="store_true", help="keep the result in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = str(ROOT / "models" / args.model)
    started = time.perf_counter()
    read, packed = plain_read(), packed_matvec()
    bound = max(read, packed)
    sides = (EngineSide(folder), TransformersSide(folder))
    rows = [compare(sides, batch, args.tokens, args.rounds, bound) for batch in LENGTHS]
    result.show(COLUMNS, rows)
    print(f"bound: plain read {read / 1e9:.1f} GB/s, packed matrix-vector {packed / 1e9:.1f} GB/s")
    print(
        f"weights: {sides[0].weight_bytes / 1e6:.0f} MB; took {time.perf_counter() - started:.0f} s"
    )
    if args.write:
        command = f"python tools/bench/decode.py --threads {args.threads} --write"
        print(f"written to {result.write('decode', command, COLUMNS, rows)}")


if __name__ == "__main__":
    main()
