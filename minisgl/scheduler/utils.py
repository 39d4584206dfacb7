"""A request that waits for its turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from minisgl.core import SamplingParams

    from .prefill import ChunkedReq


@dataclass
class PendingReq:
    """A request whose prompt is not, or not wholly, computed. input_ids: (input_len,) int32.

    chunked_req: the part of it that has been computed or launched so far, if there is one.
    """

    uid: int
    input_ids: torch.Tensor
    sampling_params: SamplingParams
    chunked_req: ChunkedReq | None = None

    @property
    def input_len(self) -> int:
        """Tokens of the prompt."""
        return len(self.input_ids)

    @property
    def output_len(self) -> int:
        """Tokens that may be generated."""
        return self.sampling_params.max_tokens
