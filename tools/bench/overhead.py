"""What the scheduler costs: a step's time on the CPU, on an engine without a model.

    python tools/bench/overhead.py [--steps N] [--write]

The engine is a stub that only books each pass, which is counted too. Each number is the median of
many. The first table shows decode steps, with every kind of scheduler, then what their time grows
with; the second one does so for what a request costs at its start and end; the third one shows
where a decode step's time goes.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from bench.stub_side import Driven, StubEngine, finish, message, scheduler_with  # noqa: E402
from minisgl.scheduler.cache import CacheManager  # noqa: E402
from minisgl.scheduler.decode import DecodeManager  # noqa: E402

COLUMNS = ["cache", "page", "loop", "running", "prompt", "pool", "tree", "step (us)", "target (us)"]
LIFE_COLUMNS = ["cache", "page", "prompt", "pool", "tree", "a request's start and end (us)"]
PROFILE_COLUMNS = ["part of a step", "us", "us a request"]
COUNT, ROUNDS = 16, 20
"""Requests that start and end together, and how often."""
WARM_UP = 5
"""Steps that are not counted."""
BASE: dict[str, Any] = {"cache": "radix", "page": 1, "overlap": True}
BASE |= {"running": 256, "prompt": 64, "pool": 1 << 20, "tree": 0}


def step_times(scheduler: Driven, overlap: bool, steps: int) -> list[float]:
    """Microseconds of each of these decode steps."""
    data, times = None, []
    for _ in range(steps + WARM_UP):
        start = time.perf_counter()
        if overlap:
            data = scheduler.overlap_loop(data)
        else:
            scheduler.normal_loop()
        times.append((time.perf_counter() - start) * 1e6)
    return times[WARM_UP:]


def measure(steps: int, **changes: Any) -> list[result.Cell]:
    """One row of the table: BASE with these changes."""
    settings = BASE | changes
    scheduler = scheduler_with(settings)
    gc.collect()
    spent = statistics.median(step_times(scheduler, settings["overlap"], steps))
    loop = "overlap" if settings["overlap"] else "normal"
    kind: list[result.Cell] = [settings["cache"], settings["page"], loop]
    sizes = [f"{settings[name]:,}" for name in ("running", "prompt", "pool", "tree")]
    return [*kind, *sizes, round(spent), 150 + 6 * settings["running"]]


def life(**changes: Any) -> list[result.Cell]:
    """One row: what a request costs from its arrival to its end, apart from decode steps.

    COUNT requests come at once, and each ends with its first token.
    """
    settings = BASE | {"running": 0} | changes
    scheduler, times = scheduler_with(settings), []
    for _ in range(ROUNDS):
        messages = [message(uid, settings["prompt"], 1) for uid in range(COUNT)]
        start = time.perf_counter()
        finish(scheduler, messages)
        times.append((time.perf_counter() - start) * 1e6 / COUNT)
        scheduler.cache_manager.check_integrity()
    sizes = [f"{settings[name]:,}" for name in ("prompt", "pool", "tree")]
    return [settings["cache"], settings["page"], *sizes, round(statistics.median(times))]


PARTS = {
    "receive": (Driven, "_receive"),
    "choose who runs": (DecodeManager, "schedule_next_batch"),
    "allocate pages": (CacheManager, "allocate_paged"),
    "tensors": (Driven, "_prepare_batch"),
    "engine (stub)": (StubEngine, "forward_batch"),
    "launch": (Driven, "_forward"),
    "read and reply": (Driven, "_process_last_data"),
}
INSIDE = {"tensors": "allocate pages", "launch": "engine (stub)"}
"""Parts that contain another part, whose time is not theirs."""


def profile(steps: int) -> list[list[result.Cell]]:
    """Where the time of a median step goes, by part."""
    scheduler, running = scheduler_with(BASE), BASE["running"]
    gc.collect()
    spent: dict[str, list[float]] = {part: [] for part in PARTS}
    with ExitStack() as stack:
        for part, (owner, name) in PARTS.items():
            stack.enter_context(_timed(owner, name, spent[part]))
        total = statistics.median(step_times(scheduler, True, steps))
    medians = {part: statistics.median(times[WARM_UP:]) for part, times in spent.items()}
    for outer, inner in INSIDE.items():
        medians[outer] -= medians[inner]
    medians["rest"] = total - sum(medians.values())
    medians["all"] = total
    return [[part, round(us), us / running] for part, us in medians.items()]


@contextmanager
def _timed(owner: type, name: str, spent: list[float]) -> Iterator[None]:
    """Inside the with block each call of owner.name adds its microseconds to spent."""
    real: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        returned = real(*args, **kwargs)
        spent.append((time.perf_counter() - start) * 1e6)
        return returned

    with mock.patch.object(owner, name, call):
        yield


def rows_to_measure() -> list[dict[str, Any]]:
    """All kinds of schedulers at full load, then the growth with one thing at a time."""
    kinds = product(("naive", "radix"), (1, 16), (False, True))
    rows = [{"cache": c, "page": p, "overlap": o} for c, p, o in kinds]
    rows += [{"running": count} for count in (1, 4, 16, 64)]
    rows += [{"prompt": length} for length in (512, 2048)]
    rows += [{"running": 16, "pool": tokens} for tokens in (1 << 16, 1 << 22)]
    return rows + [{"running": 16, "tree": tokens} for tokens in (10_048, 100_032)]


def lives_to_measure() -> list[dict[str, Any]]:
    """Both caches and page sizes, then the growth with one thing at a time."""
    rows = [{"cache": c, "page": p} for c, p in product(("naive", "radix"), (1, 16))]
    rows += [{"prompt": length} for length in (512, 4096)]
    rows += [{"pool": tokens} for tokens in (1 << 17, 1 << 22)]
    return rows + [{"tree": tokens} for tokens in (10_048, 100_032)]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=900, help="at most 1000")
    parser.add_argument(
        "--write", action="store_true", help="keep the results in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(args.steps, **changes) for changes in rows_to_measure()]
    result.show(COLUMNS, rows)
    lives = [life(**changes) for changes in lives_to_measure()]
    result.show(LIFE_COLUMNS, lives)
    parts = profile(args.steps)
    result.show(PROFILE_COLUMNS, parts)
    if args.write:
        command = f"python tools/bench/overhead.py --steps {args.steps} --write"
        print(f"written to {result.write('overhead', command, COLUMNS, rows)}")
        print(f"written to {result.write('overhead-life', command, LIFE_COLUMNS, lives)}")
        print(f"written to {result.write('overhead-profile', command, PROFILE_COLUMNS, parts)}")


if __name__ == "__main__":
    main()
