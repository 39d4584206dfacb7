"""Chapter 09: a prompt that begins like an earlier one finds its beginning already computed."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.core import Batch, SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.kvcache.radix_picture import tree_text
from minisgl.message import UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.utils import align_down, div_ceil

TEXTS = (
    "The capital of France is Paris. The capital of Spain is",
    "The capital of France is Paris. The river in Paris is",
    "Two plus two is",
    "The capital of France is Paris. The river in Paris is not",
    "Water boils at one hundred degrees, and it freezes at",
)


class Watched(book.offline(Scheduler)):
    """A scheduler that counts what its prefix cache did."""

    def __init__(self, config: SchedulerConfig, arrivals: list[tuple[int, UserMsg]]) -> None:
        super().__init__(config, arrivals)
        self.found: dict[int, int] = {}
        self.pictures: dict[int, str] = {}
        self.evicted_tokens = 0
        cache = self.cache_manager.prefix_cache
        plain_evict, self.cache = cache.evict, cache

        def evict(size: int) -> torch.Tensor:
            dropped = plain_evict(size)
            self.evicted_tokens += len(dropped)
            return dropped

        cache.evict = evict

    def _prepare_batch(self, batch: Batch) -> Any:
        if batch.is_prefill:
            self.found |= {req.uid: req.cached_len for req in batch.reqs}
        return super()._prepare_batch(batch)

    def offline_send_result(self, reply: list[Any]) -> None:
        super().offline_send_result(reply)
        self.pictures |= {msg.uid: tree_text(self.cache) for msg in reply if msg.finished}

    def forks(self) -> int:
        """Nodes below which the cached sequences part."""
        return sum(len(node.children) > 1 for node in self.cache.nodes())

    def counters(self, uids: range) -> dict[str, int]:
        return {
            "cached_tokens": sum(self.found[uid] for uid in uids),
            "evicted_tokens": self.evicted_tokens,
            "page_size": self.config.page_size,
        }


def schedule(model_path: str, settings: Any, waves: list[list[UserMsg]]) -> Watched:
    """Serve wave after wave with an engine of its own."""
    config = SchedulerConfig(
        model_path=model_path,
        tp_info=DistributedInfo(0, 1),
        dtype=getattr(torch, settings.dtype),
        max_running_req=settings.max_running_req,
        page_size=settings.page_size,
        num_page_override=settings.num_pages,
        cache_type=settings.cache_type,
        offline_mode=True,
    )
    arrivals = [(i * 100_000, msg) for i, wave in enumerate(waves, start=1) for msg in wave]
    scheduler = Watched(config, arrivals)
    scheduler.run()
    return scheduler


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Each prompt comes after itself and after one that shares only its first half."""
    settings = book.config(
        config, dtype="float32", page_size=1, max_running_req=4, num_pages=0, cache_type="radix"
    )
    count, size, longest = len(prompts), settings.page_size, max(map(len, prompts))
    settings.num_pages = settings.num_pages or div_ceil(2 * longest + max_tokens, size)
    other = min(prompts, key=len)[:1]
    halves = [ids[: max(1, align_down(len(ids) // 2, size))] + other * size for ids in prompts]
    one = SamplingParams(max_tokens=1, ignore_eos=True)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    waves = [
        [_request(2 * count + i, ids, one) for i, ids in enumerate(prompts)],
        [_request(count + i, ids, one) for i, ids in enumerate(halves)],
        [_request(i, prompts[i], params) for i in reversed(range(count))],
    ]
    served = schedule(model_path, settings, waves)
    return served.generation(range(count), served.counters(range(count)))


def _request(uid: int, ids: list[int], params: SamplingParams) -> UserMsg:
    return UserMsg(uid, torch.tensor(ids, dtype=torch.int32), params)


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    settings = book.config(
        {}, dtype="float32", page_size=1, max_running_req=4, num_pages=36, cache_type="radix"
    )
    prompts = [book.encode(args.model, text) for text in TEXTS]
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    waves = [[_request(uid, ids, params)] for uid, ids in enumerate(prompts)]
    served = schedule(args.model, settings, waves)
    print("A pool of 36 slots. Each request runs after the one before it is done.")
    for uid, text in enumerate(TEXTS):
        answer = book.decode(args.model, [msg.next_token for msg in served.replies[uid]])
        print(f"\nrequest {uid}: {text}{answer!r}")
        print(f"{served.found[uid]} of {len(prompts[uid])} prompt tokens were cached; then:")
        print(served.pictures[uid])
    print(f"\nforks: {served.forks()}, {served.counters(range(len(TEXTS)))}")
    book.report(generate(args.model, prompts, args.max_tokens))


if __name__ == "__main__":
    main()
