"""What the scheduler costs: a step's time on the CPU, on an engine without a model.

    python tools/bench/overhead.py [--steps N] [--write]

The engine is a stub that only books each pass, which is counted too. Each number is the median of
many decode steps with all requests running. The first table shows every kind of scheduler, then
what a step's time grows with; the second one, where the time goes.
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
from types import SimpleNamespace
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from minisgl.core import Context, SamplingParams, set_global_ctx  # noqa: E402
from minisgl.distributed.info import DistributedInfo  # noqa: E402
from minisgl.engine import ForwardOutput  # noqa: E402
from minisgl.message import UserMsg  # noqa: E402
from minisgl.scheduler import Scheduler, SchedulerConfig  # noqa: E402
from minisgl.scheduler import scheduler as module  # noqa: E402
from minisgl.scheduler.cache import CacheManager  # noqa: E402
from minisgl.scheduler.decode import DecodeManager  # noqa: E402
from minisgl.utils.device import new_event  # noqa: E402

COLUMNS = ["cache", "page", "loop", "running", "prompt", "pool", "tree", "step (us)", "target (us)"]
PROFILE_COLUMNS = ["part of a step", "us", "us a request"]
VOCAB, LONGEST, MOST_RUNNING = 97, 8192, 256
WARM_UP = 5
"""Steps that are not counted."""
BASE: dict[str, Any] = {"cache": "radix", "page": 1, "overlap": True}
BASE |= {"running": 256, "prompt": 64, "pool": 1 << 20, "tree": 0}


class StubEngine:
    """What the scheduler asks of an engine; a forward pass only books and answers token 1."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.device, self.stream = torch.device("cpu"), None
        self.num_pages, self.max_seq_len = config.num_page_override, config.max_seq_len
        self.ctx = Context(config.page_size)
        set_global_ctx(self.ctx)
        shape = (config.max_running_req, self.max_seq_len)
        self.ctx.page_table = torch.zeros(shape, dtype=torch.int32)
        self.ctx.attn_backend = SimpleNamespace(prepare_metadata=lambda batch: None)  # type: ignore[assignment]
        self.sampler = SimpleNamespace(prepare=lambda batch: None)
        self.answer = torch.ones(config.max_running_req, dtype=torch.int32)
        self.seconds = 0.0

    def forward_batch(self, batch: Any, args: Any) -> ForwardOutput:
        """Book the pass; only what a real engine does on the device is left out."""
        for req in batch.reqs:
            req.complete_one()
        tokens = self.answer[: batch.size]
        return ForwardOutput(tokens, tokens, new_event(self.device))


class Driven(Scheduler):
    """A scheduler whose messages come from inbox and whose replies go nowhere."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.inbox: list[UserMsg] = []
        with mock.patch.object(module, "Engine", StubEngine):
            super().__init__(config)

    def offline_receive_msg(self, blocking: bool = False) -> list[Any]:
        taken, self.inbox = self.inbox, []
        return taken

    def offline_send_result(self, reply: list[Any]) -> None:
        pass


def scheduler_with(settings: dict[str, Any]) -> Driven:
    """A scheduler with running requests, their prompts computed.

    pool: its tokens; tree: tokens that the prefix cache holds before. The prompts differ a little
    in length, so that about as many requests need a new page in each step.
    """
    config = SchedulerConfig(
        model_path="no checkpoint",
        tp_info=DistributedInfo(0, 1),
        dtype=torch.float32,
        max_running_req=MOST_RUNNING,
        page_size=settings["page"],
        cache_type=settings["cache"],
        num_page_override=settings["pool"] // settings["page"],
        max_seq_len_override=LONGEST,
        max_extend_tokens=1 << 30,
        offline_mode=True,
    )
    vars(config)["eos_token_ids"] = frozenset({0})
    vars(config)["model_config"] = SimpleNamespace(vocab_size=VOCAB)
    scheduler = Driven(config)
    lengths = [64] * (settings["tree"] // 64)
    _finish(scheduler, lengths)
    lengths = [settings["prompt"] + i % 16 for i in range(settings["running"])]
    scheduler.inbox += [_message(i, length, 1024) for i, length in enumerate(lengths)]
    scheduler.normal_loop()
    return scheduler


def _message(uid: int, length: int, max_tokens: int) -> UserMsg:
    ids = torch.randint(1, VOCAB, (length,), dtype=torch.int32)
    return UserMsg(uid, ids, SamplingParams(max_tokens=max_tokens))


def _finish(scheduler: Driven, lengths: list[int]) -> None:
    """Run requests of one new token each to their ends, so that their prompts are cached."""
    scheduler.inbox += [_message(i, length, 1) for i, length in enumerate(lengths)]
    while scheduler.inbox or scheduler._runnable:
        scheduler.normal_loop()


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
    shown = [settings[name] for name in ("running", "prompt", "pool", "tree")]
    return [settings["cache"], settings["page"], loop, *shown, round(spent), 150 + 6 * shown[0]]


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
    return [[part, us, us / running] for part, us in medians.items()]


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
    rows += [{"prompt": length} for length in (512, 3072)]
    rows += [{"running": 16, "pool": tokens} for tokens in (1 << 16, 1 << 22)]
    return rows + [{"running": 16, "tree": tokens} for tokens in (10_048, 100_032)]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--write", action="store_true", help="keep the results in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(args.steps, **changes) for changes in rows_to_measure()]
    result.show(COLUMNS, rows)
    parts = profile(args.steps)
    result.show(PROFILE_COLUMNS, parts)
    if args.write:
        command = f"python tools/bench/overhead.py --steps {args.steps} --write"
        print(f"written to {result.write('overhead', command, COLUMNS, rows)}")
        print(f"written to {result.write('overhead-profile', command, PROFILE_COLUMNS, parts)}")


if __name__ == "__main__":
    main()
