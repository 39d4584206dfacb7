"""The interface between the model and the many ways to compute attention over a paged pool."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from minisgl.core import Batch


@dataclass
class BaseAttnMetadata(ABC):
    """What a backend works out once for a batch and then uses in every layer."""

    @abstractmethod
    def get_last_indices(self, bs: int) -> torch.Tensor:
        """Return where the last token of each of the first bs requests lies in the flat batch."""


class BaseAttnBackend(ABC):
    """Computes attention for a batch: prepare_metadata once, then forward for each layer."""

    @abstractmethod
    def prepare_metadata(self, batch: Batch) -> None:
        """Set batch.attn_metadata; the page table's rows of its requests must be filled."""

    @abstractmethod
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        """Store the new K and V at batch.out_loc, then attend to all of each request's tokens.

        q: (tokens, qo_heads, head_dim), already rotated; k, v: (tokens, kv_heads, head_dim).
        Result: (tokens, qo_heads, head_dim).
        """


class HybridBackend(BaseAttnBackend):
    """One backend for prefill and another for decode; both read and write the same pool."""

    def __init__(self, prefill_backend: BaseAttnBackend, decode_backend: BaseAttnBackend) -> None:
        self.prefill_backend = prefill_backend
        self.decode_backend = decode_backend

    def _pick(self, batch: Batch) -> BaseAttnBackend:
        return self.prefill_backend if batch.is_prefill else self.decode_backend

    def prepare_metadata(self, batch: Batch) -> None:
        self._pick(batch).prepare_metadata(batch)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        return self._pick(batch).forward(q, k, v, layer_id, batch)
