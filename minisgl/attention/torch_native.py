"""The torch backend: PyTorch's attention, request by request, on any device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from minisgl.core import get_global_ctx
from minisgl.utils.device import pin

from .base import BaseAttnBackend, BaseAttnMetadata

if TYPE_CHECKING:
    from minisgl.core import Batch, Req
    from minisgl.models.config import ModelConfig


@dataclass(frozen=True)
class _View:
    """What one request's new queries see in a layer: the slots of its keys, and a mask.

    slots: (keys,). mask: (queries, keys), True where a query sees a key; None when every query
    sees every key, or, if causal, when there are as many queries as keys.
    """

    slots: torch.Tensor
    mask: torch.Tensor | None
    causal: bool

    @cached_property
    def run(self) -> slice | None:
        """The slots as a slice, when they follow each other. On a GPU, looking would be a wait."""
        if not self.slots.is_cpu or (self.slots.diff() != 1).any():
            return None
        first = int(self.slots[0])
        return slice(first, first + len(self.slots))

    def take(self, cache: torch.Tensor) -> torch.Tensor:
        """Return the keys' part of cache: (slots, kv_heads, head_dim), as a view if it can be."""
        return cache.index_select(0, self.slots) if self.run is None else cache[self.run]


@dataclass(frozen=True)
class _Sequence:
    """One request of the batch: q_len new tokens, the last of len(slots) tokens."""

    q_len: int
    slots: torch.Tensor

    @cached_property
    def full(self) -> _View:
        """What the queries see without a window."""
        if self.q_len == 1:
            return _View(self.slots, None, causal=False)
        if self.q_len == len(self.slots):
            return _View(self.slots, None, causal=True)
        return _View(self.slots, self._mask(len(self.slots)), causal=False)

    def windowed(self, window: int) -> _View:
        """What the queries see when each sees the last window keys, itself included."""
        kept = min(len(self.slots), self.q_len + window - 1)
        slots = self.slots[len(self.slots) - kept :]
        mask = self._mask(kept).triu(kept - self.q_len - window + 1) if self.q_len > 1 else None
        return _View(slots, mask, causal=False)

    def _mask(self, keys: int) -> torch.Tensor:
        seen = torch.ones(self.q_len, keys, dtype=torch.bool, device=self.slots.device)
        return seen.tril(keys - self.q_len)


@dataclass
class TorchMetadata(BaseAttnMetadata):
    """cu_seqlens_q: (requests + 1,) where each request's tokens begin in the flat batch.

    sequences: for each request its number of new tokens, and the slots of all its tokens.
    """

    cu_seqlens_q: torch.Tensor
    sequences: list[_Sequence]

    def __post_init__(self) -> None:
        self._views: dict[int | None, list[_View]] = {}

    def get_last_indices(self, bs: int) -> torch.Tensor:
        return self.cu_seqlens_q[1 : bs + 1] - 1

    def views(self, window: int | None) -> list[_View]:
        """Return what each request sees; worked out once per batch and window, not per layer."""
        if window not in self._views:
            self._views[window] = [
                s.full if window is None else s.windowed(window) for s in self.sequences
            ]
        return self._views[window]


class TorchAttentionBackend(BaseAttnBackend):
    """Gathers each request's K and V from the pool; the work grows with its real tokens only."""

    def __init__(self, config: ModelConfig) -> None:
        self._ctx = get_global_ctx()
        self._windows = config.layer_windows
        # of a GPU's kernels cuDNN's are planned anew for each length, and every token has another
        torch.backends.cuda.enable_cudnn_sdp(False)

    def prepare_metadata(self, batch: Batch) -> None:
        reqs, device = batch.padded_reqs, self._ctx.page_table.device
        ends = torch.tensor([0, *(req.extend_len for req in reqs)]).cumsum(0)
        batch.attn_metadata = TorchMetadata(
            cu_seqlens_q=pin(ends, device).to(device, non_blocking=True),
            sequences=[_Sequence(req.extend_len, self._slots(req)) for req in reqs],
        )

    def _slots(self, req: Req) -> torch.Tensor:
        return self._ctx.page_table[req.table_idx, : req.device_len].to(torch.int64, copy=True)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        metadata, pool = batch.attn_metadata, self._ctx.kv_cache
        assert isinstance(metadata, TorchMetadata), "call prepare_metadata for this batch first"
        pool.store_kv(k, v, batch.out_loc, layer_id)
        k_slots, v_slots = (
            t.flatten(0, 1) for t in (pool.k_cache(layer_id), pool.v_cache(layer_id))
        )
        views = metadata.views(self._windows[layer_id])
        queries = torch.split(q, [s.q_len for s in metadata.sequences])
        return torch.cat(
            [
                _attend(x, view.take(k_slots), view.take(v_slots), view)
                for x, view in zip(queries, views, strict=True)
            ]
        )


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, view: _View) -> torch.Tensor:
    """q: (queries, qo_heads, head_dim); k, v: (keys, kv_heads, head_dim) -> like q"""
    k, v = k.transpose(0, 1).unsqueeze(0), v.transpose(0, 1).unsqueeze(0)
    if len(q) == 1:  # the heads that share K and V become the queries of one head
        grouped = q.view(1, k.shape[1], -1, q.shape[-1])
        return F.scaled_dot_product_attention(grouped, k, v).reshape(q.shape)
    heads = q.transpose(0, 1).unsqueeze(0)
    out = F.scaled_dot_product_attention(
        heads, k, v, attn_mask=view.mask, is_causal=view.causal, enable_gqa=True
    )
    return out.squeeze(0).transpose(0, 1)
