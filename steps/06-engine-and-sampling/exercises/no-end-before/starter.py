"""A sampler that is to draw no end id before a request has given min_tokens tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minisgl.core import Batch, SamplingParams
from minisgl.engine.sample import BatchSamplingArgs, Sampler


@dataclass
class PatientParams(SamplingParams):
    """min_tokens: none of the first so many tokens of the answer is an end id."""

    min_tokens: int = 0


@dataclass
class PatientSampler(Sampler):
    """end_ids: the token ids that end an answer."""

    end_ids: tuple[int, ...] = ()

    def prepare(self, batch: Batch) -> BatchSamplingArgs:
        """Return the parameters of the batch's requests; call it before the forward pass."""
        return super().prepare(batch)

    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        """logits: (requests, vocab_size) -> (requests,) token ids"""
        return super().sample(logits, args)
