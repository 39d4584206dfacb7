"""Drives the scheduler through random traffic until it has met enough of everything.

python tests/soak/drive.py                        a million events
python tests/soak/drive.py --seed 7 --episode 12  one episode again, after a violation
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402

from soak.counts import events, missed  # noqa: E402
from soak.episode import Episode  # noqa: E402


class Violation(Exception):
    """Something was wrong; the message says what, and how to see it again."""


def one_episode(seed: int, number: int, counts: Counter[str], base: Any = None) -> None:
    before = events(counts)
    episode = Episode(seed, number, counts, base)
    try:
        episode.run()
    except Exception as error:
        raise Violation(
            f"seed {seed}, episode {number}, event {events(counts) - before}, step {episode.step}: "
            f"{type(error).__name__}: {error}\n  {episode.settings}\n"
            f"  again: python tests/soak/drive.py --seed {seed} --episode {number}"
        ) from error


@torch.inference_mode()
def soak(wanted: int, seed: int, base: Any = None) -> Counter[str]:
    """Run episodes until there were as many events as wanted; Violation at the first fault."""
    counts: Counter[str] = Counter()
    for number in itertools.count():
        if events(counts) >= wanted:
            return counts
        one_episode(seed, number, counts, base)
        counts["episode"] += 1
        if number % 50 == 49:
            print(f"{number + 1} episodes, {events(counts)} events", file=sys.stderr, flush=True)
    raise AssertionError


def main() -> int:
    logging.disable(logging.WARNING)  # refusals are part of the traffic
    parser = argparse.ArgumentParser(description="Random traffic for the scheduler.")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many at least")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other traffic")
    parser.add_argument("--episode", type=int, help="only this episode of the seed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    begin = time.perf_counter()
    try:
        if args.episode is not None:
            one_episode(args.seed, args.episode, counts)
        else:
            counts = soak(args.events, args.seed)
    except Violation as violation:
        print(f"violation: {violation}", file=sys.stderr)
        return 1
    took, cpu = time.perf_counter() - begin, time.process_time()
    print(f"seed {args.seed}: {events(counts)} events in {took:.0f} s ({cpu:.0f} s of CPU time)")
    for name, count in sorted(counts.items()):
        print(f"{count:9}  {name}")
    short = missed(counts, args.events) if args.episode is None else []
    for sentence in short:
        print(f"too few: {sentence}", file=sys.stderr)
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
