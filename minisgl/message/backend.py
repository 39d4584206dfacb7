"""Messages to the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from minisgl.core import SamplingParams

from .utils import decode_message, serialize_type


@dataclass
class BaseBackendMsg:
    """Anything that the scheduler may be told."""

    def encoder(self) -> dict[str, Any]:
        """Return the message as a map for msgpack."""
        return serialize_type(self)

    @staticmethod
    def decoder(json: dict[str, Any]) -> BaseBackendMsg:
        """Return the message that a map describes; raises MessageError for another map."""
        return decode_message(BaseBackendMsg, _TYPES, json)


@dataclass
class BatchBackendMsg(BaseBackendMsg):
    """Several messages at once, in order."""

    data: list[BaseBackendMsg]


@dataclass
class ExitMsg(BaseBackendMsg):
    """Stop serving."""


@dataclass
class UserMsg(BaseBackendMsg):
    """A new request. input_ids: (tokens,) int32 on the CPU. No other request may have its uid.

    Raises ValueError for input_ids that are not a row of int32 or int64.
    """

    uid: int
    input_ids: torch.Tensor
    sampling_params: SamplingParams

    def __post_init__(self) -> None:
        ids = self.input_ids
        if ids.dim() != 1 or ids.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"input_ids are a row of int32, not {ids.dtype} {tuple(ids.shape)}")


@dataclass
class AbortBackendMsg(BaseBackendMsg):
    """Stop request uid, wherever it is; without effect when there is none."""

    uid: int


_TYPES = {
    cls.__name__: cls
    for cls in (BatchBackendMsg, ExitMsg, UserMsg, AbortBackendMsg, SamplingParams)
}
