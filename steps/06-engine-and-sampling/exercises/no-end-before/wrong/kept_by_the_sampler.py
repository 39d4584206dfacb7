"""Keeps the places in the sampler, between prepare and sample."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minisgl.core import Batch, Req, SamplingParams
from minisgl.engine.sample import BatchSamplingArgs, Sampler


@dataclass
class PatientParams(SamplingParams):
    """min_tokens: none of the first so many tokens of the answer is an end id."""

    min_tokens: int = 0


@dataclass
class PatientSampler(Sampler):
    """end_ids: the token ids that end an answer."""

    end_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ends = self._tensor(list(self.end_ids), torch.int64)

    def prepare(self, batch: Batch) -> BatchSamplingArgs:
        """Return the parameters of the batch's requests; call it before the forward pass."""
        args = super().prepare(batch)
        early = [place for place, req in enumerate(batch.reqs) if is_early(req)]
        self.early = self._tensor(early, torch.int64)
        return args

    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        """logits: (requests, vocab_size) -> (requests,) token ids"""
        return super().sample(self.without_ends(logits, self.early), args)

    def without_ends(self, logits: torch.Tensor, early: torch.Tensor) -> torch.Tensor:
        """Return a copy of logits in which the early rows have no end id."""
        logits = logits.clone()
        logits[early.unsqueeze(-1), self.ends] = -torch.inf
        return logits


def is_early(req: Req) -> bool:
    """Whether the request's next token may not be an end id; before the pass."""
    params = req.sampling_params
    if not isinstance(params, PatientParams) or params.ignore_eos:
        return False
    return req.output_len - req.remain_len < params.min_tokens
