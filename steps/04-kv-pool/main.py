"""Chapter 04: K and V live in a paged pool; page table and token pool say whose is what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

import book
from minisgl.core import Batch, Context, get_global_ctx, set_global_ctx
from minisgl.kvcache import create_kvcache_pool
from minisgl.models import BaseLLMModel, ModelConfig, create_model, load_weight
from minisgl.scheduler.table import TableManager
from minisgl.utils import cached_load_hf_config, div_ceil

PROMPTS = ("The capital of France is", "Water boils at", "Once upon a time")


class GatherAttention:
    """Stands where chapter 05's backend will: one request, K and V gathered from its pages."""

    def __init__(self, windows: tuple[int | None, ...]) -> None:
        self.windows = windows

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        ctx, row, length = get_global_ctx(), batch.reqs[0].row, batch.reqs[0].length
        ctx.kv_cache.store_kv(k, v, batch.out_loc, layer_id)
        slots = ctx.page_table[row, :length]
        k = ctx.kv_cache.k_cache(layer_id).flatten(0, 1)[slots]
        v = ctx.kv_cache.v_cache(layer_id).flatten(0, 1)[slots]
        return attend(q, k, v, self.windows[layer_id])


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None) -> torch.Tensor:
    """q: (new, heads, d); k, v: (all, kv_heads, d) -> (new, heads, d); a query sees window keys."""
    new, total, group = len(q), len(k), q.shape[1] // k.shape[1]
    age = torch.arange(total - new, total)[:, None] - torch.arange(total)
    hidden = (age < 0) | (age >= (window or total))
    k, v = (t.repeat_interleave(group, dim=1).transpose(0, 1) for t in (k, v))
    scores = q.transpose(0, 1) @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    return (scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v).transpose(0, 1)


class Memory:
    """The pool and the tables of one run; pages are handed out in a scrambled order."""

    def __init__(self, config: ModelConfig, page_size: int, num_pages: int, rows: int, width: int):
        cpu = torch.device("cpu")
        self.ctx = Context(page_size=page_size)
        self.ctx.kv_cache = create_kvcache_pool(config, num_pages, page_size, torch.float32, cpu)
        self.ctx.page_table = torch.zeros(rows, width, dtype=torch.int32)
        self.ctx.attn_backend = GatherAttention(config.layer_windows)
        set_global_ctx(self.ctx)
        self.tables = TableManager(rows, self.ctx.page_table)
        self.free_pages = torch.randperm(num_pages, generator=torch.Generator().manual_seed(0))
        self.used_pages = 0

    def admit(self, prompt: list[int], max_tokens: int) -> SimpleNamespace:
        """Give a request a row and all the pages it will ever need; write its prompt's ids."""
        length, size = len(prompt) + max_tokens, self.ctx.page_size
        needed = div_ceil(length, size)
        pages = self.free_pages[self.used_pages : self.used_pages + needed]
        self.used_pages += needed
        slots = (pages[:, None] * size + torch.arange(size)).flatten()
        row = self.tables.allocate()
        self.tables.page_table[row, :length] = slots[:length]
        self.tables.token_pool[row, : len(prompt)] = torch.tensor(prompt)
        return SimpleNamespace(row=row, length=len(prompt), new=len(prompt), top2=[])


def step(model: BaseLLMModel, memory: Memory, req: SimpleNamespace) -> None:
    """One pass over a request's new tokens; the next token goes into the token pool."""
    positions = torch.arange(req.length - req.new, req.length)
    batch = Batch(reqs=[req], phase="decode" if req.new == 1 else "prefill")
    batch.positions = positions
    batch.input_ids = memory.tables.token_pool[req.row, positions]
    batch.out_loc = memory.tables.page_table[req.row, positions]
    batch.attn_metadata = SimpleNamespace(get_last_indices=lambda bs: torch.tensor([req.new - 1]))
    with memory.ctx.forward_batch(batch):
        logits = model.forward()[0]
    memory.tables.token_pool[req.row, req.length] = logits.argmax()
    req.top2.append(book.top2(logits))
    req.length, req.new = req.length + 1, 1


def build(model_path: str) -> tuple[BaseLLMModel, ModelConfig]:
    config = ModelConfig.from_hf(cached_load_hf_config(model_path))
    with torch.device("meta"):
        model = create_model(config)
    weights = load_weight(model_path, torch.device("cpu"), torch.float32)
    model.load_state_dict(dict(weights))
    model.process_weights_after_loading()
    return model, config


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, show: bool = False, **config: Any
) -> book.Generation:
    """Continue all prompts in turns, a token each, so that their pages lie among each other's."""
    size = book.config(config, page_size=4).page_size
    model, model_config = build(model_path)
    lengths = [len(prompt) + max_tokens for prompt in prompts]
    pages = sum(div_ceil(length, size) for length in lengths)
    memory = Memory(model_config, size, pages, rows=len(prompts), width=max(lengths) + 1)
    reqs = [memory.admit(prompt, max_tokens) for prompt in prompts]
    for _ in range(max_tokens):
        for req in reqs:
            step(model, memory, req)
    if show:
        print_tables(memory, reqs)
    ids = [memory.tables.token_pool[r.row, : r.length].tolist() for r in reqs]
    tokens = [row[len(prompt) :] for row, prompt in zip(ids, prompts, strict=True)]
    counters = {"pages": memory.used_pages, "page_size": memory.ctx.page_size}
    return book.Generation(tokens, [req.top2 for req in reqs], counters)


def print_tables(memory: Memory, reqs: list[SimpleNamespace]) -> None:
    """The first twelve columns of each row of both tables."""
    for title, table in (
        ("page table", memory.tables.page_table),
        ("token pool", memory.tables.token_pool),
    ):
        print(f"{title}: the first 12 positions of each row")
        for req in reqs:
            print(f"  row {req.row}: " + " ".join(f"{x:5}" for x in table[req.row, :12].tolist()))


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    prompts = [book.encode(args.model, text) for text in PROMPTS]
    result = generate(args.model, prompts, args.max_tokens, show=True)
    print(f"\n{result.counters['pages']} pages of {result.counters['page_size']} slots\n")
    for text, ids in zip(PROMPTS, result.token_ids, strict=True):
        print(f"{text} ->{book.decode(args.model, ids)!r}")
    book.report(result)


if __name__ == "__main__":
    main()
