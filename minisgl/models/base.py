"""What every model offers the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from minisgl.layers import BaseOP


class BaseLLMModel(ABC, BaseOP):
    """A model reads its inputs from the context's current batch."""

    @abstractmethod
    def forward(self) -> torch.Tensor:
        """Return the next token's logits: (requests, vocab_size)."""
