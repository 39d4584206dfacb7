"""Chapter 11: the next batch is launched before the last one is read; LLM.generate, complete."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.core import Batch, SamplingParams
from minisgl.env import ENV
from minisgl.llm import LLM
from minisgl.scheduler.prefill import ChunkedReq

TEXTS = (
    "The capital of France is",
    "The capital of France is Paris. The river in Paris is",
    "Two plus two is",
    "Water boils at one hundred degrees, and it freezes at",
)


class Watched(LLM):
    """An LLM that writes down what it does, and what its tokens were chosen from."""

    def __init__(self, model_path: str, settings: Any) -> None:
        super().__init__(
            model_path,
            getattr(torch, settings.dtype),
            max_running_req=settings.max_running_req,
            page_size=settings.page_size,
            num_page_override=settings.num_pages or 4096 // settings.page_size,
            max_extend_tokens=settings.max_extend_tokens,
            cache_type=settings.cache_type,
            attention_backend=settings.attention_backend,
        )
        self.logits = book.watch_logits(self.engine)
        self.story: list[str] = []
        self.seen: set[int] = set()
        self.counters = dict.fromkeys(("cached_tokens", "chunks", "overlapped_steps"), 0)
        self.counters["page_size"] = settings.page_size
        ENV.DISABLE_OVERLAP_SCHEDULING.value = not settings.overlap

    def _prepare_batch(self, batch: Batch) -> Any:
        uids = " ".join(str(req.uid) for req in batch.reqs)
        self.story.append(f"launch {batch.phase} of {uids}")
        self.counters["chunks"] += sum(isinstance(req, ChunkedReq) for req in batch.reqs)
        for req in batch.reqs:
            self.counters["cached_tokens"] += req.cached_len * self._is_new(req.uid)
        return super()._prepare_batch(batch)

    def _is_new(self, uid: int) -> bool:
        """Whether no batch with this request was launched before, not even a chunk of it."""
        is_new = uid not in self.seen
        self.seen.add(uid)
        return is_new

    def _process_last_data(self, last_data: Any) -> None:
        if last_data is not None:
            self.counters["overlapped_steps"] += len(self.in_flight) > 1
            uids = " ".join(str(req.uid) for req in last_data[0].batch.reqs)
            self.story.append(f"read {last_data[0].batch.phase} of {uids}")
        super()._process_last_data(last_data)


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Two calls of LLM.generate: every other prompt, and then all of them."""
    settings = book.config(
        config,
        dtype="float32",
        page_size=1,
        num_pages=0,
        max_running_req=8,
        max_extend_tokens=8192,
        cache_type="radix",
        overlap=True,
        attention_backend="auto",
    )
    llm = Watched(model_path, settings)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    llm.generate(prompts[::2], SamplingParams(max_tokens=2, ignore_eos=True), use_tqdm=False)
    first = llm.counter
    answers = llm.generate(prompts, params, use_tqdm=False)
    top2 = [llm.logits[uid] for uid in range(first, llm.counter)]
    return book.Generation([answer["token_ids"] for answer in answers], top2, llm.counters)


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    fixed = {"dtype": "float32", "page_size": 1, "num_pages": 0, "max_running_req": 8}
    fixed |= {"max_extend_tokens": 8192, "cache_type": "radix", "attention_backend": "auto"}
    answers = {}
    for overlap in (False, True):
        llm = Watched(args.model, book.config({}, **fixed, overlap=overlap))
        params = [SamplingParams(max_tokens=n) for n in (3, 5, 4, 2)]
        answers[overlap] = llm.generate(list(TEXTS), params, use_tqdm=False)
        print(f"overlap {'on' if overlap else 'off'}:")
        print("".join(f"  {line}\n" for line in llm.story))
        llm.shutdown()
    for text, answer in zip(TEXTS, answers[True], strict=True):
        print(f"{text}{answer['text']!r}")
    print(f"\nthe same with overlap on and off: {answers[True] == answers[False]}")
    book.report(generate(args.model, [book.encode(args.model, t) for t in TEXTS], args.max_tokens))


if __name__ == "__main__":
    main()
