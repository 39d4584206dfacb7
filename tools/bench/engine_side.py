"""Our side of the comparison: chapter 06's engine, driven by hand, step by step."""

from __future__ import annotations

import time

import torch

from minisgl.core import Batch, Req, SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.engine import Engine, EngineConfig
from minisgl.utils import div_ceil

PAGE_SIZE, NUM_PAGES, MAX_RUNNING = 16, 256, 8


class EngineSide:
    """Greedy generation in float32: one prefill of all prompts, then decode steps."""

    def __init__(self, folder: str) -> None:
        self.engine = Engine(
            EngineConfig(
                model_path=folder,
                tp_info=DistributedInfo(0, 1),
                dtype=torch.float32,
                max_running_req=MAX_RUNNING,
                page_size=PAGE_SIZE,
                num_page_override=NUM_PAGES,
            )
        )
        weights = self.engine.model.state_dict().values()
        self.weight_bytes = sum(weight.numel() * weight.element_size() for weight in weights)
        self.vocab_size = self.engine.sampler.vocab_size

    def run(self, prompts: list[list[int]], tokens: int) -> tuple[list[list[int]], list[float]]:
        """Return each prompt's new tokens, and the time of each step's tokens."""
        reqs = self._requests(prompts, tokens)
        stamps: list[float] = []
        batch = Batch(reqs=reqs, phase="prefill")
        while batch.size:
            self._step(batch)
            stamps.append(time.perf_counter())
            batch = Batch(reqs=[req for req in reqs if req.can_decode], phase="decode")
        return [req.input_ids[-tokens:].tolist() for req in reqs], stamps

    def _requests(self, prompts: list[list[int]], tokens: int) -> list[Req]:
        """One row of the page table each, with pages for all tokens to come."""
        reqs, page = [], 0
        for row, prompt in enumerate(prompts):
            pages = div_ceil(len(prompt) + tokens, PAGE_SIZE)
            slots = torch.arange(page * PAGE_SIZE, (page + pages) * PAGE_SIZE)
            self.engine.ctx.page_table[row, : len(slots)] = slots
            page += pages
            ids = torch.tensor(prompt, dtype=torch.int32)
            reqs.append(Req(ids, row, 0, tokens, row, SamplingParams(), None))  # type: ignore[arg-type]
        return reqs

    def _step(self, batch: Batch) -> None:
        spans = [(req, torch.arange(req.cached_len, req.device_len)) for req in batch.reqs]
        table = self.engine.ctx.page_table
        batch.input_ids = torch.cat([req.input_ids[span] for req, span in spans])
        batch.positions = torch.cat([span for _, span in spans])
        batch.out_loc = torch.cat([table[req.table_idx, span] for req, span in spans])
        self.engine.ctx.attn_backend.prepare_metadata(batch)
        output = self.engine.forward_batch(batch, self.engine.sampler.prepare(batch))
        for req, token in zip(batch.reqs, output.next_tokens_cpu, strict=True):
            req.append_host(token.view(1))
