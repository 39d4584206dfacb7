"""Chapter 08: pages go from the free list to requests and back, and each has exactly one owner."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.core import Batch, SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.utils import div_ceil

TEXTS = ("The capital of France is", "Water boils at", "Two plus two is", "The sun rises in")
WANTED = (14, 5, 9, 7)


class Watched(book.offline(Scheduler)):
    """A scheduler that notes who owns each page, and how often pages are used again."""

    def __init__(self, config: SchedulerConfig, arrivals: list[tuple[int, UserMsg]]) -> None:
        super().__init__(config, arrivals)
        self.given: list[int] = []
        self.pictures: list[str] = []

    def _prepare_batch(self, batch: Batch) -> Any:
        before = self.cache_manager.free_slots
        prepared = super()._prepare_batch(batch)
        taken = len(before) - len(self.cache_manager.free_slots)
        self.given += before[:taken].tolist()
        self.pictures.append(f"step {self.step:2}  {self.owners(batch)}")
        self.cache_manager.check_integrity(self.running(batch))
        return prepared

    def running(self, batch: Batch) -> list[Any]:
        """Every request that owns pages, as the pass about to start will leave it."""
        waiting = [req for req in self.decode_manager.running_reqs if req not in batch.reqs]
        return [*waiting, *(_Launched(req) for req in batch.reqs)]

    def owners(self, batch: Batch) -> str:
        """One character a page: a request's uid, or a dot where it is free."""
        size = self.config.page_size
        marks = ["."] * self.engine.num_pages
        for req in self.running(batch):
            slots = self.engine.ctx.page_table[req.table_idx, : req.cached_len : size]
            for slot in slots.tolist():
                marks[slot // size] = str(req.uid)
        return "".join(marks)

    def counters(self) -> dict[str, int]:
        reused = len(self.given) - len(set(self.given))
        return {"reused_pages": reused, "page_size": self.config.page_size}


class _Launched:
    """A request as it is once its batch is launched: all its tokens have slots."""

    def __init__(self, req: Any) -> None:
        self.uid, self.table_idx, self.cache_handle = req.uid, req.table_idx, req.cache_handle
        self.cached_len = req.device_len


def schedule(model_path: str, settings: Any, arrivals: list[tuple[int, UserMsg]]) -> Watched:
    """Serve the arrivals with an engine of its own."""
    config = SchedulerConfig(
        model_path=model_path,
        tp_info=DistributedInfo(0, 1),
        dtype=getattr(torch, settings.dtype),
        max_running_req=settings.max_running_req,
        page_size=settings.page_size,
        num_page_override=settings.num_pages,
        cache_type="naive",
        offline_mode=True,
    )
    scheduler = Watched(config, arrivals)
    scheduler.run()
    return scheduler


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """The pool is so small that later requests must use pages of earlier ones."""
    settings = book.config(config, dtype="float32", page_size=1, max_running_req=3, num_pages=0)
    longest = max(map(len, prompts)) + max_tokens
    settings.num_pages = settings.num_pages or div_ceil(longest, settings.page_size)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    arrivals = [
        (1, UserMsg(uid, torch.tensor(ids, dtype=torch.int32), params))
        for uid, ids in enumerate(prompts)
    ]
    served = schedule(model_path, settings, arrivals)
    return served.generation(range(len(prompts)), served.counters())


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    settings = book.config({}, dtype="float32", page_size=2, max_running_req=3, num_pages=18)
    arrivals = [
        (1 + uid, UserMsg(uid, torch.tensor(book.encode(args.model, text)).int(), params))
        for uid, (text, tokens) in enumerate(zip(TEXTS, WANTED, strict=True))
        for params in [SamplingParams(max_tokens=tokens, ignore_eos=True)]
    ]
    served = schedule(args.model, settings, arrivals)
    print("18 pages of 2 tokens. In each step, who owns which page:\n")
    print("\n".join(served.pictures))
    print(f"\n{served.counters()}")

    manager = served.cache_manager
    manager.free_slots = torch.cat([manager.free_slots[1:], manager.free_slots[-1:]])
    print("\nOne page is lost and another is twice in the free list. Their number is right:")
    try:
        manager.check_integrity()
    except RuntimeError as error:
        print(error)
    prompts = [book.encode(args.model, text) for text in TEXTS]
    book.report(generate(args.model, prompts, args.max_tokens))


if __name__ == "__main__":
    main()
