"""From token ids to vectors, and from the last vectors to logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from minisgl.core import get_global_ctx
from minisgl.distributed.info import get_tp_info
from minisgl.utils import div_ceil, nvtx_annotate

from .base import _STATE_DICT, BaseOP, _concat_prefix
from .linear import linear, pack_weight


class VocabParallelEmbedding(BaseOP):
    """One vector per token of the vocabulary, of which each rank holds an equal range of rows."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        self.num_embeddings = num_embeddings
        self.weight = torch.empty(div_ceil(num_embeddings, get_tp_info().size), embedding_dim)

    @nvtx_annotate("Embedding")
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (tokens,) ids -> (tokens, embedding_dim)"""
        return F.embedding(x, self.weight)


class ParallelLMHead(VocabParallelEmbedding):
    """The logits of each request's last token; the matrix may be the embedding's (tied).

    weight: (num_embeddings, embedding_dim), which a tied head does not have; bias or None.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        bias: bool = False,
        tie_word_embeddings: bool = False,
        tied_embedding: VocabParallelEmbedding | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim)
        self.bias = torch.empty(len(self.weight)) if bias else None
        assert tie_word_embeddings == (tied_embedding is not None), (
            "a tied head needs the embedding that it shares, and only a tied one"
        )
        self._tied_embedding = tied_embedding
        self._packed: torch.Tensor | None = None
        if tied_embedding is not None:
            del self.weight

    def load_state_dict(
        self, state_dict: _STATE_DICT, *, prefix: str = "", _internal: bool = False
    ) -> None:
        """Take the head's own weights; a tied head drops a copy that the file may hold."""
        self._packed = None
        if self._tied_embedding is not None:
            state_dict.pop(_concat_prefix(prefix, "weight"), None)
        super().load_state_dict(state_dict, prefix=prefix, _internal=_internal)

    def process_weights_after_loading(self) -> None:
        """Pack the matrix; the packed copy of a tied one lies beside the embedding's."""
        self._packed = pack_weight(self._matrix())
        if self._tied_embedding is None:
            self.weight = self._packed

    def _matrix(self) -> torch.Tensor:
        return self.weight if self._tied_embedding is None else self._tied_embedding.weight

    @nvtx_annotate("LMHead")
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (tokens, embedding_dim) of the current batch -> (requests, num_embeddings)"""
        batch = get_global_ctx().batch
        if batch.is_prefill:
            x = x[batch.attn_metadata.get_last_indices(batch.size)]
        weight = self._matrix() if self._packed is None else self._packed
        return linear(x, weight, self.bias)
