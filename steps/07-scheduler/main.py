"""Chapter 07: requests come and go while others run, and none waits for a whole batch to end."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.core import Batch, SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig

ARRIVALS = {
    "The capital of France is": (1, 12),
    "Water boils at": (1, 4),
    "Two plus two is": (4, 8),
    "The sun rises in": (5, 6),
}
"""Prompt: the step at which it comes in, and how many tokens it wants."""


class Watched(book.offline(Scheduler)):
    """A scheduler that notes which batches it ran."""

    def __init__(self, config: SchedulerConfig, arrivals: list[tuple[int, UserMsg]]) -> None:
        super().__init__(config, arrivals)
        self.batches: list[tuple[int, str, list[int]]] = []
        self.mixed_ages = 0

    def _prepare_batch(self, batch: Batch) -> Any:
        self.batches.append((self.step, batch.phase, [req.uid for req in batch.reqs]))
        ages = {len(self.logits.get(req.uid, [])) for req in batch.reqs}
        self.mixed_ages += batch.is_decode and len(ages) > 1
        return super()._prepare_batch(batch)

    def counters(self) -> dict[str, int]:
        phases = [phase for _, phase, _ in self.batches]
        return {
            "prefill_batches": phases.count("prefill"),
            "decode_batches": phases.count("decode"),
            "mixed_ages": self.mixed_ages,
            "page_size": self.config.page_size,
        }


def schedule(model_path: str, settings: Any, arrivals: list[tuple[int, UserMsg]]) -> Watched:
    """Serve the arrivals with an engine of its own."""
    config = SchedulerConfig(
        model_path=model_path,
        tp_info=DistributedInfo(0, 1),
        dtype=getattr(torch, settings.dtype),
        max_running_req=settings.max_running_req,
        page_size=settings.page_size,
        num_page_override=settings.num_pages or 4096 // settings.page_size,
        cache_type="naive",
        offline_mode=True,
    )
    scheduler = Watched(config, arrivals)
    scheduler.run()
    return scheduler


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Each prompt arrives two steps after the one before it."""
    settings = book.config(config, dtype="float32", page_size=1, max_running_req=8, num_pages=0)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    arrivals = [
        (1 + 2 * uid, UserMsg(uid, torch.tensor(ids, dtype=torch.int32), params))
        for uid, ids in enumerate(prompts)
    ]
    served = schedule(model_path, settings, arrivals)
    return served.generation(range(len(prompts)), served.counters())


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    settings = book.config({}, dtype="float32", page_size=4, max_running_req=3, num_pages=12)
    arrivals = [
        (step, UserMsg(uid, torch.tensor(book.encode(args.model, text)).int(), params))
        for uid, (text, (step, tokens)) in enumerate(ARRIVALS.items())
        for params in [SamplingParams(max_tokens=tokens, ignore_eos=True)]
    ]
    too_long = torch.ones(60, dtype=torch.int32)
    arrivals.insert(2, (2, UserMsg(9, too_long, SamplingParams())))
    served = schedule(args.model, settings, arrivals)
    print("12 pages of 4 tokens, 3 rows. In each step, who runs:\n")
    for step, phase, uids in served.batches:
        marks = "".join(f" {uid}" if uid in uids else "  " for uid in range(len(ARRIVALS)))
        print(f"step {step:2}  {phase:7}  requests{marks}")
    print()
    for uid, (text, (step, _)) in enumerate(ARRIVALS.items()):
        tokens = [msg.next_token for msg in served.replies[uid]]
        print(f"request {uid}, in at step {step}: {text}{book.decode(args.model, tokens)!r}")
    print(f"request 9, in at step 2: {served.replies[9][0].error}")
    print(f"\n{served.counters()}")
    prompts = [book.encode(args.model, text) for text in ARRIVALS]
    book.report(generate(args.model, prompts, args.max_tokens))


if __name__ == "__main__":
    main()
