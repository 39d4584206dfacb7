"""From logits to the next token of each request, greedy and sampled rows in one batch."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from minisgl.utils import nvtx_annotate
from minisgl.utils.device import pin

from .penalty import Penalties, TokenCounts

if TYPE_CHECKING:
    from minisgl.core import Batch, Req


@dataclass
class BatchSamplingArgs:
    """The batch's sampling parameters, one entry per request; temperatures None: all are greedy.

    top_k and top_p None: no request uses that filter. uniforms: the random draws, in [0, 1).
    penalties None: no request has one. top_logprobs: the most log-probabilities that a request
    asks for, None if nobody does.
    """

    temperatures: torch.Tensor | None
    top_k: torch.Tensor | None = None
    top_p: torch.Tensor | None = None
    uniforms: torch.Tensor | None = None
    penalties: Penalties | None = None
    top_logprobs: int | None = None


class Logprobs(NamedTuple):
    """Log-probabilities as the model gives them, before penalties, temperature and filters.

    chosen: (requests,) float32, of the token that was drawn. top: (requests, k) float32 and
    top_ids: (requests, k) int32, the k best, best first. A token that can't be drawn has -inf.
    """

    chosen: torch.Tensor
    top: torch.Tensor
    top_ids: torch.Tensor


def make_device_tensor(
    data: list[int] | list[float], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return data on device, without waiting for the copy."""
    return pin(torch.tensor(data, dtype=dtype), device).to(device, non_blocking=True)


def sample_impl(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | int | None,
    top_p: torch.Tensor | float | None,
    uniforms: torch.Tensor | None = None,
) -> torch.Tensor:
    """Draw one token per row: temperature, then the top_k best, then the top_p share of these.

    logits: (requests, vocab); temperatures, uniforms: (requests,); top_k, top_p: (requests,) or
    one value for all rows, at least 1 and above 0. A row with temperature 0 takes its best logit.
    Result: (requests,) int64. Without uniforms they are drawn from PyTorch's generator. A row with
    NaN gets some token of the vocabulary and leaves the other rows alone.
    """
    best = logits.argmax(dim=-1)
    warmth = torch.where(temperatures > 0, temperatures, 1.0).unsqueeze(-1)
    # The best logit is made 0 first, so that no temperature, however small, divides to infinity.
    scores = (logits.float() - logits.amax(dim=-1, keepdim=True)) / warmth
    probs, ids = torch.softmax(scores, dim=-1).sort(dim=-1, descending=True)
    if top_k is not None:
        ranks = torch.arange(probs.shape[-1], device=probs.device)
        probs = probs.masked_fill(ranks >= _column(top_k), 0.0)
    if top_p is not None:
        before = probs.cumsum(dim=-1) - probs
        probs = probs.masked_fill(before >= _column(top_p) * probs.sum(-1, keepdim=True), 0.0)
    mass = probs.double().cumsum(dim=-1)
    if uniforms is None:
        uniforms = torch.rand(len(probs), dtype=torch.float64, device=probs.device)
    target = uniforms.to(mass).unsqueeze(-1) * mass[:, -1:]
    rank = torch.searchsorted(mass, target, right=True).clamp(max=probs.shape[-1] - 1)
    drawn = ids.gather(-1, rank).squeeze(-1)
    return torch.where(temperatures > 0, drawn, best)


def _column(values: torch.Tensor | float) -> torch.Tensor | float:
    return values.unsqueeze(-1) if isinstance(values, torch.Tensor) else values


def _uniform(req: Req) -> float:
    """Return the draw for the request's next token, from its seed (else its uid) and position.

    It depends on nothing else: not on the rest of the batch, nor on what was drawn before. So
    every rank draws the same, and a seeded request repeats.
    """
    seed = req.sampling_params.seed
    source = f"uid {req.uid}" if seed is None else f"seed {seed}"
    return random.Random(f"{source} position {req.device_len}").random()


def log_probs(logits: torch.Tensor, tokens: torch.Tensor, k: int) -> Logprobs:
    """logits: (requests, vocab), as they left the model; tokens: (requests,); k: at most vocab."""
    every = torch.log_softmax(logits.float(), dim=-1)
    chosen = every.gather(-1, tokens.long().unsqueeze(-1)).squeeze(-1)
    top, ids = every.topk(k, dim=-1)
    return Logprobs(chosen, top, ids.to(torch.int32))


@dataclass
class Sampler:
    """Prepares a batch's sampling parameters and applies them to its logits.

    max_running_req: rows that requests may have, which their penalties are kept by.
    """

    device: torch.device
    vocab_size: int
    max_running_req: int = 256

    def __post_init__(self) -> None:
        self.counts = TokenCounts(self.max_running_req, self.vocab_size, self.device)

    def prepare(self, batch: Batch) -> BatchSamplingArgs:
        """Return the parameters of the batch's requests; call it before the forward pass."""
        params = [req.sampling_params for req in batch.reqs]
        asked = [p.top_logprobs for p in params if p.top_logprobs is not None]
        most = min(max(asked), self.vocab_size) if asked else None
        penalties = self._penalties(batch.reqs)
        if all(p.is_greedy for p in params):
            return BatchSamplingArgs(None, penalties=penalties, top_logprobs=most)
        limits = [p.top_k if 0 < p.top_k < self.vocab_size else self.vocab_size for p in params]
        shares = [p.top_p for p in params]
        warmth = [0.0 if p.is_greedy else p.temperature for p in params]
        draws = [_uniform(req) for req in batch.reqs]
        return BatchSamplingArgs(
            temperatures=self._tensor(warmth, torch.float32),
            top_k=self._filter(limits, torch.int64, self.vocab_size),
            top_p=self._filter(shares, torch.float64, 1.0),
            uniforms=self._tensor(draws, torch.float64),
            penalties=penalties,
            top_logprobs=most,
        )

    def _penalties(self, reqs: list[Req]) -> Penalties | None:
        """Return what penalties need; a chunk of a prompt has no answer yet and is left out."""
        having = [
            (place, req, req.sampling_params)
            for place, req in enumerate(reqs)
            if req.sampling_params.has_penalty and req.can_decode
        ]
        if not having:
            return None
        new = [req.table_idx for _, req, _ in having if req.remain_len == req.output_len]
        return Penalties(
            self._tensor([place for place, _, _ in having], torch.int64),
            self._tensor([req.table_idx for _, req, _ in having], torch.int64),
            self._tensor(new, torch.int64),
            self._tensor([p.presence_penalty for *_, p in having], torch.float32).unsqueeze(-1),
            self._tensor([p.frequency_penalty for *_, p in having], torch.float32).unsqueeze(-1),
        )

    def _tensor(self, values: list[int] | list[float], dtype: torch.dtype) -> torch.Tensor:
        return make_device_tensor(values, dtype, self.device)

    def _filter(
        self, values: list[int] | list[float], dtype: torch.dtype, off: float
    ) -> torch.Tensor | None:
        if all(value == off for value in values):
            return None
        return self._tensor(values, dtype)

    @nvtx_annotate("Sampler")
    def sample(self, logits: torch.Tensor, args: BatchSamplingArgs) -> torch.Tensor:
        """logits: (requests, vocab_size) -> (requests,) token ids"""
        if args.penalties is not None:
            logits = self.counts.penalize(logits, args.penalties)
        if args.temperatures is None:
            tokens = logits.argmax(dim=-1)
        else:
            tokens = sample_impl(logits, args.temperatures, args.top_k, args.top_p, args.uniforms)
        if args.penalties is not None:
            self.counts.add(tokens, args.penalties)
        return tokens
