"""Believes that a model has one end id."""

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
class PatientArgs(BatchSamplingArgs):
    """early: (n,) int64, the places of the batch's requests that may not end yet."""

    early: torch.Tensor | None = None


@dataclass
class PatientSampler(Sampler):
    """end_ids: the token ids that end an answer."""

    end_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ends = self._tensor(list(self.end_ids[:1]), torch.int64)

    def prepare(self, batch: Batch) -> BatchSamplingArgs:
        """Return the parameters of the batch's requests; call it before the forward pass."""
        args = super().prepare(batch)
        early = [place for place, req in enumerate(batch.reqs) if is_early(req)]
        if not early:
            return args
        return PatientArgs(**vars(args), early=self._tensor(early, torch.int64))

    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        """logits: (requests, vocab_size) -> (requests,) token ids"""
        if isinstance(args, PatientArgs) and args.early is not None:
            logits = self.without_ends(logits, args.early)
        return super().sample(logits, args)

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
