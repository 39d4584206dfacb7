"""The other side of the comparison: transformers' generate on a batch padded on the left."""

from __future__ import annotations

import time

import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
)


class _Clock(LogitsProcessor):
    """Notes when each step's logits are there, and leaves them as they are."""

    def __init__(self) -> None:
        self.stamps: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.stamps.append(time.perf_counter())
        return scores


class TransformersSide:
    """Greedy generation in float32, without an end id."""

    def __init__(self, folder: str) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)

    def run(self, prompts: list[list[int]], tokens: int) -> tuple[list[list[int]], list[float]]:
        """Return each prompt's new tokens, and the time of each step's logits."""
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        clock = _Clock()
        with torch.inference_mode():
            out = self.model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=tokens,
                logits_processor=LogitsProcessorList([clock]),
            )
        return out[:, width:].tolist(), clock.stamps
