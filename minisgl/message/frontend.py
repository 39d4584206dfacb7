"""Messages to the server that clients talk to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .utils import deserialize_type, serialize_type


@dataclass
class BaseFrontendMsg:
    """Anything that the server may be told."""

    @staticmethod
    def encoder(msg: BaseFrontendMsg) -> dict[str, Any]:
        """Return the message as a map for msgpack."""
        return serialize_type(msg)

    @staticmethod
    def decoder(json: dict[str, Any]) -> BaseFrontendMsg:
        """Return the message that a map describes; raises MessageError for another map."""
        msg: BaseFrontendMsg = deserialize_type(_TYPES, json)
        return msg


@dataclass
class BatchFrontendMsg(BaseFrontendMsg):
    """Several messages at once, in order."""

    data: list[BaseFrontendMsg]


@dataclass
class UserReply(BaseFrontendMsg):
    """The next piece of the text for request uid; finished: it is the last one."""

    uid: int
    incremental_output: str
    finished: bool


_TYPES = {cls.__name__: cls for cls in (BatchFrontendMsg, UserReply)}
