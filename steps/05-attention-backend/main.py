"""Chapter 05: requests of different lengths, and one with a cached prefix, in one forward pass."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.attention import create_attention_backend
from minisgl.core import Batch, Context, Req, SamplingParams, set_global_ctx
from minisgl.kvcache import create_kvcache_pool
from minisgl.models import ModelConfig, create_model, load_weight
from minisgl.scheduler.table import TableManager
from minisgl.utils import cached_load_hf_config, div_ceil

PROMPTS = ("The capital of France is", "Water boils at", "Once upon a time, in a small village")


class Runner:
    """A model, a pool, the tables and a backend; pages are handed out in a scrambled order."""

    def __init__(self, model_path: str, page_size: int, backend: str, lengths: list[int]) -> None:
        config = ModelConfig.from_hf(cached_load_hf_config(model_path))
        cpu, num_pages = torch.device("cpu"), sum(div_ceil(n, page_size) for n in lengths)
        self.ctx = Context(page_size=page_size)
        set_global_ctx(self.ctx)
        self.ctx.kv_cache = create_kvcache_pool(config, num_pages, page_size, torch.float32, cpu)
        self.ctx.page_table = torch.zeros(len(lengths), max(lengths), dtype=torch.int32)
        self.ctx.attn_backend = create_attention_backend(backend, config)
        self.tables = TableManager(len(lengths), self.ctx.page_table)
        self.pages = torch.randperm(num_pages, generator=torch.Generator().manual_seed(0)).tolist()
        with torch.device("meta"):
            self.model = create_model(config)
        weights = load_weight(model_path, cpu, torch.float32)
        self.model.load_state_dict(dict(weights))
        self.model.process_weights_after_loading()
        self.counters = {
            "prefill_tokens": 0,
            "decode_tokens": 0,
            "cached_tokens": 0,
            "page_size": 0,
        }

    def admit(self, length: int) -> int:
        """Return a row of the page table with slots for length tokens."""
        row, size = self.tables.allocate(), self.ctx.page_size
        slots = [
            page * size + i for page in self._take(div_ceil(length, size)) for i in range(size)
        ]
        self.ctx.page_table[row, :length] = torch.tensor(slots[:length])
        return row

    def _take(self, count: int) -> list[int]:
        taken, self.pages = self.pages[:count], self.pages[count:]
        return taken

    def run(self, batch: Batch) -> torch.Tensor:
        """One forward pass; returns logits: (requests, vocab)."""
        spans = [(req, torch.arange(req.cached_len, req.device_len)) for req in batch.reqs]
        batch.input_ids = torch.cat([req.input_ids[span] for req, span in spans])
        batch.positions = torch.cat([span for _, span in spans])
        batch.out_loc = torch.cat([self.ctx.page_table[req.table_idx, span] for req, span in spans])
        self.ctx.attn_backend.prepare_metadata(batch)
        self.counters[f"{batch.phase}_tokens"] += len(batch.input_ids)
        if batch.is_prefill:
            self.counters["cached_tokens"] += sum(req.cached_len for req in batch.reqs)
        self.counters["page_size"] = self.ctx.kv_cache.k_cache(0).shape[1]
        with self.ctx.forward_batch(batch):
            logits = self.model.forward()
        for req in batch.reqs:
            req.complete_one()
        return logits


def make_req(ids: list[int], uid: int, row: int, cached_len: int, output_len: int) -> Req:
    tokens = torch.tensor(ids, dtype=torch.int32)
    return Req(tokens, row, cached_len, output_len, uid, SamplingParams(), None)


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, show: bool = False, **config: Any
) -> book.Generation:
    """Prefill half of each prompt, then the rest behind the cached half, then decode all."""
    settings = book.config(config, page_size=4, attention_backend="torch")
    lengths = [len(prompt) + max_tokens for prompt in prompts]
    runner = Runner(model_path, settings.page_size, settings.attention_backend, lengths)
    todo = [(ids, uid, runner.admit(lengths[uid])) for uid, ids in enumerate(prompts)]
    halves = [make_req(ids[: len(ids) // 2], uid, row, 0, 1) for ids, uid, row in todo if ids[1:]]
    reqs = [make_req(ids, uid, row, len(ids) // 2, max_tokens) for ids, uid, row in todo]
    top2: list[list[book.Top2]] = [[] for _ in prompts]
    if halves:
        runner.run(Batch(reqs=halves, phase="prefill"))
    batch = Batch(reqs=reqs, phase="prefill")
    while batch.size:
        if show and batch.reqs[0].remain_len >= max_tokens - 1:
            print_batch(batch)
        for req, row in zip(batch.reqs, runner.run(batch), strict=True):
            top2[req.uid].append(book.top2(row))
            req.append_host(row.argmax().view(1))
        batch = Batch(reqs=[req for req in reqs if req.can_decode], phase="decode")
    tokens = [req.input_ids[-max_tokens:].tolist() for req in reqs]
    return book.Generation(tokens, top2, runner.counters)


def print_batch(batch: Batch) -> None:
    """What each request brings to a pass: new tokens behind cached ones, and the keys they see."""
    print(f"{batch.phase} of {batch.size} requests, {sum(r.extend_len for r in batch.reqs)} tokens")
    for req in batch.reqs:
        print(
            f"  request {req.uid}: {req.extend_len:2} new behind {req.cached_len:2} cached tokens"
        )


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    prompts = [book.encode(args.model, text) for text in PROMPTS]
    result = generate(args.model, prompts, args.max_tokens, show=True)
    print()
    for text, ids in zip(PROMPTS, result.token_ids, strict=True):
        print(f"{text} ->{book.decode(args.model, ids)!r}")
    print(f"\n{result.counters}")
    book.report(result)


if __name__ == "__main__":
    main()
