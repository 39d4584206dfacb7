"""The four data structures that every part of the engine shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from minisgl.attention.base import BaseAttnBackend, BaseAttnMetadata
    from minisgl.kvcache.base import BaseCacheHandle, BaseKVCachePool
    from minisgl.moe.base import BaseMoeBackend


@dataclass
class SamplingParams:
    """How one request's next token is chosen from its logits, and when the request ends.

    temperature 0 is greedy; top_k -1 and top_p 1.0 switch these filters off; seed makes the
    request's random draws repeatable, whatever else is in its batches.
    presence_penalty is taken once from the logit of each token that the answer has, and
    frequency_penalty for each time that it has it. top_logprobs k asks for the log-probabilities
    of each token and of the k best; None: for none.
    Raises ValueError for a value out of range.
    """

    temperature: float = 0.0
    top_k: int = -1
    top_p: float = 1.0
    ignore_eos: bool = False
    max_tokens: int = 1024
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        for name in ("top_k", "max_tokens", "seed", "top_logprobs"):
            value = getattr(self, name)
            if type(value) is not int and (value is not None or name in ("top_k", "max_tokens")):
                raise ValueError(f"{name} must be a whole number, not {value!r}")
        for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            if type(value := getattr(self, name)) not in (int, float):
                raise ValueError(f"{name} must be a number, not {value!r}")
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be 0 or more and finite, not {self.temperature}")
        if self.top_k != -1 and self.top_k < 1:
            raise ValueError(f"top_k must be -1 (off) or at least 1, not {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {self.max_tokens}")
        for name in ("presence_penalty", "frequency_penalty"):
            if not -2.0 <= (value := getattr(self, name)) <= 2.0:
                raise ValueError(f"{name} must be from -2 to 2, not {value}")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= 20:
            raise ValueError(f"top_logprobs must be from 0 to 20, not {self.top_logprobs}")

    @property
    def is_greedy(self) -> bool:
        """Whether the next token is always the one with the best logit."""
        return self.temperature == 0.0 or self.top_k == 1

    @property
    def has_penalty(self) -> bool:
        """Whether the tokens of the answer make themselves less, or more, likely to come again."""
        return self.presence_penalty != 0.0 or self.frequency_penalty != 0.0


@dataclass(eq=False)
class Req:
    """One running request: its tokens, and how many of them each part of the engine has seen.

    input_ids: (len,) int32 on the CPU, a copy of the prompt and then every sampled token.
    table_idx: its row in the page table. cached_len: tokens whose K and V are in the pool.
    output_len: tokens that may be generated. device_len: tokens so far, at first the prompt's;
    max_device_len: prompt and output. Invariant: cached_len < device_len <= max_device_len.
    """

    input_ids: torch.Tensor
    table_idx: int
    cached_len: int
    output_len: int
    uid: int
    sampling_params: SamplingParams
    cache_handle: BaseCacheHandle

    def __post_init__(self) -> None:
        assert self.input_ids.is_cpu, "a request keeps its tokens on the CPU"
        self.device_len = len(self.input_ids)
        self.max_device_len = self.device_len + self.output_len
        assert 0 <= self.cached_len < self.device_len, (
            f"request {self.uid}: {self.cached_len} of {self.device_len} tokens are cached; "
            "at least the last token must be computed"
        )
        self._buffer = torch.empty(self.max_device_len, dtype=self.input_ids.dtype)
        self._buffer[: self.device_len] = self.input_ids
        self._numbers = self._buffer.numpy()  # the same memory; a single entry is set much faster
        self.input_ids = self._buffer[: self.device_len]

    @property
    def remain_len(self) -> int:
        """Tokens that may still be generated."""
        return self.max_device_len - self.device_len

    @property
    def extend_len(self) -> int:
        """Tokens that the next forward pass must compute."""
        return self.device_len - self.cached_len

    @property
    def can_decode(self) -> bool:
        """Whether at least one more token may be generated."""
        return self.remain_len > 0

    def complete_one(self) -> None:
        """Book one forward pass: cached_len becomes device_len, which then grows by one."""
        self.cached_len = self.device_len
        self.device_len += 1

    @property
    def is_complete(self) -> bool:
        """Whether every token that may be generated has come to the CPU."""
        return len(self.input_ids) == self.max_device_len

    def append_host(self, next_token: torch.Tensor | int) -> None:
        """Add next_token, a number or (1,); the tokens before it stay where they lie in memory."""
        length = len(self.input_ids)
        assert length < self.max_device_len, f"request {self.uid} has no room for another token"
        self._numbers[length] = int(next_token)
        self.input_ids = self._buffer[: length + 1]

    def __repr__(self) -> str:
        return (
            f"Req(uid={self.uid}, row={self.table_idx}, cached={self.cached_len}, "
            f"device={self.device_len}, max={self.max_device_len})"
        )


@dataclass
class Batch:
    """The requests of one forward pass, all in the same phase, and the pass's input tensors.

    The tensors are on the device, flat over all requests' new tokens, and have their fillers:
    input_ids, positions, out_loc: (tokens,) the scheduler; attn_metadata the attention backend;
    padded_reqs the graph runner (reqs, and dummies that fill a captured batch size).
    """

    reqs: list[Req]
    phase: Literal["prefill", "decode"]
    input_ids: torch.Tensor = field(init=False)
    positions: torch.Tensor = field(init=False)
    out_loc: torch.Tensor = field(init=False)
    padded_reqs: list[Req] = field(init=False)
    attn_metadata: BaseAttnMetadata = field(init=False)

    def __post_init__(self) -> None:
        self.padded_reqs = self.reqs

    @property
    def size(self) -> int:
        """Requests in the batch."""
        return len(self.reqs)

    @property
    def padded_size(self) -> int:
        """Requests in the batch, dummies included."""
        return len(self.padded_reqs)

    @property
    def is_prefill(self) -> bool:
        """Whether the pass computes prompts, any number of tokens per request."""
        return self.phase == "prefill"

    @property
    def is_decode(self) -> bool:
        """Whether the pass computes exactly one token per request."""
        return self.phase == "decode"


@dataclass
class Context:
    """What a layer deep in the model needs but is not passed: pool, page table, current batch."""

    page_size: int
    page_table: torch.Tensor = field(init=False)
    attn_backend: BaseAttnBackend = field(init=False)
    moe_backend: BaseMoeBackend = field(init=False)
    kv_cache: BaseKVCachePool = field(init=False)
    _batch: Batch | None = field(default=None, init=False)

    @property
    def batch(self) -> Batch:
        """The batch of the forward pass that is running."""
        assert self._batch is not None, "no forward pass is running: use ctx.forward_batch(batch)"
        return self._batch

    @contextmanager
    def forward_batch(self, batch: Batch) -> Iterator[None]:
        """Make batch the current one inside the with block, however it ends; passes don't nest."""
        assert self._batch is None, "a forward pass is already running in this context"
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None


_GLOBAL_CTX: Context | None = None


def set_global_ctx(ctx: Context) -> None:
    """Make ctx the context of this process, in place of the one of an earlier engine."""
    global _GLOBAL_CTX
    assert _GLOBAL_CTX is None or _GLOBAL_CTX._batch is None, (
        "the context can't change while a forward pass is running"
    )
    _GLOBAL_CTX = ctx


def get_global_ctx() -> Context:
    """Return the context of this process."""
    assert _GLOBAL_CTX is not None, "there is no context yet: call set_global_ctx first"
    return _GLOBAL_CTX
