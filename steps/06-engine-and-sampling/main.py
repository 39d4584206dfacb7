"""Chapter 06: the engine runs batches put together by hand; greedy and sampled requests mix."""

from __future__ import annotations

from typing import Any

import torch

import book
from minisgl.core import Batch, Req, SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.engine import BatchSamplingArgs, Engine, EngineConfig
from minisgl.engine.sample import Sampler
from minisgl.scheduler.table import TableManager
from minisgl.utils import div_ceil
from minisgl.utils.device import use_stream

PROMPT = "The capital of France is"
WAYS = {
    "greedy": SamplingParams(),
    "temperature 1, seed 1": SamplingParams(temperature=1.0, seed=1),
    "the same again": SamplingParams(temperature=1.0, seed=1),
    "temperature 1, top_k 20, top_p 0.8": SamplingParams(
        temperature=1.0, top_k=20, top_p=0.8, seed=2
    ),
}


class RecordingSampler(Sampler):
    """A sampler that also notes each row's two best logits, and counts the rows it draws for."""

    seen: list[list[book.Top2]]
    drawn_rows: int

    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        self.seen.append([book.top2(row) for row in logits])
        if args.temperatures is not None:
            self.drawn_rows += int((args.temperatures > 0).sum())
        return super().sample(logits, args)


class Runner:
    """An engine, and by hand what chapters 07 to 10 will do: rows, slots and batches."""

    def __init__(self, model_path: str, settings: Any, lengths: list[int]) -> None:
        self.engine = Engine(
            EngineConfig(
                model_path=model_path,
                tp_info=DistributedInfo(0, 1),
                dtype=getattr(torch, settings.dtype),
                max_running_req=len(lengths),
                attention_backend=settings.attention_backend,
                page_size=settings.page_size,
                num_page_override=sum(div_ceil(n, settings.page_size) for n in lengths),
            )
        )
        sampler = self.engine.sampler
        self.engine.sampler = self.sampler = RecordingSampler(sampler.device, sampler.vocab_size)
        self.sampler.seen, self.sampler.drawn_rows = [], 0
        self.tables = TableManager(len(lengths), self.engine.ctx.page_table)
        self.pages = torch.randperm(
            self.engine.num_pages, generator=torch.Generator().manual_seed(0)
        )
        page_size = self.engine.ctx.page_size
        self.counters = {"prefill_tokens": 0, "decode_tokens": 0, "page_size": page_size}

    def admit(self, length: int) -> int:
        """Return a row of the page table with slots for length tokens."""
        row, size = self.tables.allocate(), self.engine.ctx.page_size
        needed = div_ceil(length, size)
        taken, self.pages = self.pages[:needed], self.pages[needed:]
        slots = (taken[:, None] * size + torch.arange(size)).flatten()
        self.tables.page_table[row, :length] = slots[:length].to(self.engine.device)
        return row

    def run(self, batch: Batch) -> None:
        """Forward and sample; the new tokens go into the token pool and to the requests."""
        device, tables = self.engine.device, self.tables
        spans = [(req, torch.arange(req.cached_len, req.device_len)) for req in batch.reqs]
        rows = torch.cat([torch.full_like(span, req.table_idx) for req, span in spans]).to(device)
        batch.positions = torch.cat([span for _, span in spans]).to(device)
        batch.input_ids = tables.token_pool[rows, batch.positions]
        batch.out_loc = tables.page_table[rows, batch.positions]
        self.engine.ctx.attn_backend.prepare_metadata(batch)
        self.counters[f"{batch.phase}_tokens"] += len(rows)
        output = self.engine.forward_batch(batch, self.engine.sampler.prepare(batch))
        ends = torch.tensor([[req.table_idx, req.cached_len] for req in batch.reqs]).to(device)
        tables.token_pool[ends[:, 0], ends[:, 1]] = output.next_tokens_gpu
        output.copy_done_event.synchronize()
        for req, token in zip(batch.reqs, output.next_tokens_cpu, strict=True):
            req.append_host(token.view(1))

    def serve(
        self, prompts: list[list[int]], params: list[SamplingParams], max_tokens: int
    ) -> list[Req]:
        """Prefill all prompts as one batch, then decode until all are done."""
        reqs = []
        for uid, (ids, param) in enumerate(zip(prompts, params, strict=True)):
            row = self.admit(len(ids) + max_tokens)
            tokens = torch.tensor(ids, dtype=torch.int32)
            self.tables.token_pool[row, : len(ids)] = tokens.to(self.engine.device)
            reqs.append(Req(tokens, row, 0, max_tokens, uid, param, None))
        batch = Batch(reqs=reqs, phase="prefill")
        while batch.size:
            self.run(batch)
            batch = Batch(reqs=[req for req in reqs if req.can_decode], phase="decode")
        return reqs


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Greedy through the engine; odd prompts are greedy by top_k 1, among sampled neighbors."""
    settings = book.config(config, dtype="float32", page_size=1, attention_backend="auto")
    greedy = [
        SamplingParams(temperature=0.7, top_k=1) if i % 2 else SamplingParams()
        for i in range(len(prompts))
    ]
    extra = SamplingParams(temperature=1.0, top_p=0.9, seed=0)
    runner = Runner(model_path, settings, [len(ids) + max_tokens for ids in [*prompts, prompts[0]]])
    with use_stream(runner.engine.stream):
        reqs = runner.serve([*prompts, prompts[0]], [*greedy, extra], max_tokens)[:-1]
    top2 = [[step[req.uid] for step in runner.sampler.seen] for req in reqs]
    tokens = [req.input_ids[-max_tokens:].tolist() for req in reqs]
    counters = {**runner.counters, "sampled_rows": runner.sampler.drawn_rows}
    return book.Generation(tokens, top2, counters)


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    ids = book.encode(args.model, PROMPT)
    settings = book.config({}, dtype="float32", page_size=4, attention_backend="auto")
    runner = Runner(args.model, settings, [len(ids) + args.max_tokens] * len(WAYS))
    with use_stream(runner.engine.stream):
        reqs = runner.serve([ids] * len(WAYS), list(WAYS.values()), args.max_tokens)
    print(f"{PROMPT} ... in one batch, {args.max_tokens} tokens each\n")
    for way, req in zip(WAYS, reqs, strict=True):
        print(f"{way:36}{book.decode(args.model, req.input_ids[len(ids) :].tolist())!r}")
    print(f"\n{runner.counters}")
    book.report(generate(args.model, [ids], args.max_tokens))


if __name__ == "__main__":
    main()
