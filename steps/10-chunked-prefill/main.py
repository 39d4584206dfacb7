"""Chapter 10: a long prompt is computed in chunks, and running requests go on between them."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.core import Batch, SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.scheduler.prefill import ChunkedReq

SHORT = "The capital of France is"
LONG = (
    "Water boils at 100 degrees Celsius at sea level. On a high mountain it boils at a lower "
    "temperature, because the air presses less. Therefore eggs on a mountain need"
)


class Watched(book.offline(Scheduler)):
    """A scheduler that notes what each step computes."""

    def __init__(self, config: SchedulerConfig, arrivals: list[tuple[int, UserMsg]]) -> None:
        super().__init__(config, arrivals)
        self.batches: list[str] = []
        self.chunks = self.between = 0

    def _prepare_batch(self, batch: Batch) -> Any:
        self.chunks += sum(isinstance(req, ChunkedReq) for req in batch.reqs)
        is_cut = any(pending.chunked_req for pending in self.prefill_manager.pending_list)
        self.between += batch.is_decode and is_cut
        spans = [f"{r.uid}[{r.cached_len}:{r.device_len}]" for r in batch.reqs]
        self.batches.append(f"step {self.step:2}  {batch.phase:7}  {' '.join(spans)}")
        return super()._prepare_batch(batch)

    def counters(self) -> dict[str, int]:
        return {
            "chunks": self.chunks,
            "decode_steps_between_chunks": self.between,
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
        num_page_override=4096 // settings.page_size,
        max_extend_tokens=settings.max_extend_tokens,
        cache_type=settings.cache_type,
        offline_mode=True,
    )
    scheduler = Watched(config, arrivals)
    scheduler.run()
    return scheduler


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Each prompt arrives two steps after the one before it."""
    settings = book.config(
        config,
        dtype="float32",
        page_size=1,
        max_running_req=8,
        max_extend_tokens=8,
        cache_type="radix",
    )
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    arrivals = [
        (1 + 2 * uid, UserMsg(uid, torch.tensor(ids, dtype=torch.int32), params))
        for uid, ids in enumerate(prompts)
    ]
    served = schedule(model_path, settings, arrivals)
    return served.generation(range(len(prompts)), served.counters())


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    settings = book.config(
        {},
        dtype="float32",
        page_size=1,
        max_running_req=4,
        max_extend_tokens=10,
        cache_type="radix",
    )
    prompts = [book.encode(args.model, text) for text in (SHORT, LONG)]
    wanted = (9, 6)
    arrivals = [
        (1 + 2 * uid, UserMsg(uid, torch.tensor(ids).int(), params))
        for uid, ids in enumerate(prompts)
        for params in [SamplingParams(max_tokens=wanted[uid], ignore_eos=True)]
    ]
    served = schedule(args.model, settings, arrivals)
    print("At most 10 tokens of prompts a step. uid[from:to] is what a step computes:\n")
    print("\n".join(served.batches))
    print()
    for uid, ids in enumerate(prompts):
        answer = book.decode(args.model, [msg.next_token for msg in served.replies[uid]])
        print(f"request {uid}, {len(ids)} tokens: ...{answer!r}")
    print(f"\n{served.counters()}")
    book.report(generate(args.model, prompts, args.max_tokens))


if __name__ == "__main__":
    main()
