"""Messages to the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from minisgl.core import SamplingParams


@dataclass
class BaseBackendMsg:
    """Anything that the scheduler may be told."""


@dataclass
class UserMsg(BaseBackendMsg):
    """A new request. input_ids: (tokens,) int32 on the CPU. No other request may have its uid."""

    uid: int
    input_ids: torch.Tensor
    sampling_params: SamplingParams


@dataclass
class AbortBackendMsg(BaseBackendMsg):
    """Stop request uid, wherever it is; without effect when there is none."""

    uid: int
