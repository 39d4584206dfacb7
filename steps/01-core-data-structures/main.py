"""Chapter 01: requests and batches drive the minimal engine, several requests at once."""

from __future__ import annotations

from typing import Any

import torch

import book
from minimal_engine import MinimalEngine
from minisgl.core import Batch, Context, Req, SamplingParams, get_global_ctx, set_global_ctx
from minisgl.utils import init_logger

PROMPTS = ("The capital of France is", "Water boils at", "Once upon a time")
logger = init_logger(__name__)


class Runner:
    """Runs batches of requests on the minimal engine, which still knows one request at a time."""

    def __init__(self, model_path: str) -> None:
        self.engine = MinimalEngine(model_path)
        self.caches: dict[int, dict] = {}
        self.top2: dict[int, list[book.Top2]] = {}
        self.counters = {"prefill_batches": 0, "decode_batches": 0, "cached_tokens": 0}
        set_global_ctx(Context(page_size=1))

    def run(self, batch: Batch) -> None:
        """One forward pass: every request of the batch gets one more token."""
        self.counters[f"{batch.phase}_batches"] += 1
        with get_global_ctx().forward_batch(batch):
            for req in get_global_ctx().batch.reqs:
                self._step(req)

    def _step(self, req: Req) -> None:
        self.counters["cached_tokens"] += req.cached_len
        new_ids = req.input_ids[req.cached_len : req.device_len].tolist()
        logits = self.engine.forward(new_ids, self.caches.setdefault(req.uid, {}))
        self.top2.setdefault(req.uid, []).append(book.top2(logits))
        req.complete_one()
        req.append_host(logits.argmax().view(1))


def make_requests(prompts: list[list[int]], max_tokens: int) -> list[Req]:
    params = SamplingParams(max_tokens=max_tokens)
    return [
        Req(
            input_ids=torch.tensor(ids, dtype=torch.int32),
            table_idx=uid,
            cached_len=0,
            output_len=params.max_tokens,
            uid=uid,
            sampling_params=params,
            cache_handle=None,
        )
        for uid, ids in enumerate(prompts)
    ]


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, trace: bool = False, **config: Any
) -> book.Generation:
    """Prefill all prompts as one batch, then decode until no request can go on."""
    book.config(config)
    runner = Runner(model_path)
    reqs = make_requests(prompts, max_tokens)
    batch = Batch(reqs=reqs, phase="prefill")
    while batch.size:
        if trace:
            work = ", ".join(f"#{r.uid} +{r.extend_len} of {r.device_len}" for r in batch.reqs)
            print(f"{batch.phase:8} {work}")
        runner.run(batch)
        batch = Batch(reqs=[req for req in reqs if req.can_decode], phase="decode")
    tokens = [req.input_ids[len(ids) :].tolist() for req, ids in zip(reqs, prompts, strict=True)]
    return book.Generation(tokens, [runner.top2[req.uid] for req in reqs], runner.counters)


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    prompts = [book.encode(args.model, text) for text in PROMPTS]
    print("each request: tokens to compute, of how many in all")
    generate(args.model, prompts, 4, trace=True)
    result = generate(args.model, prompts, args.max_tokens)
    print()
    for text, ids in zip(PROMPTS, result.token_ids, strict=True):
        print(f"{text} ->{book.decode(args.model, ids)!r}")
    print(f"\n{result.counters}")
    logger.info("%d requests done", len(prompts))
    book.report(result)


if __name__ == "__main__":
    main()
