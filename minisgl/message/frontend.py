"""Messages to the server that clients talk to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .utils import decode_message, serialize_type


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
        return decode_message(BaseFrontendMsg, _TYPES, json)


@dataclass
class BatchFrontendMsg(BaseFrontendMsg):
    """Several messages at once, in order."""

    data: list[BaseFrontendMsg]


@dataclass
class UserReply(BaseFrontendMsg):
    """The next piece of the text for request uid; finished: it is the last one.

    error: why there is no answer or no more of it, in one sentence; finished is then True.
    """

    uid: int
    incremental_output: str
    finished: bool
    error: str | None = None


_TYPES = {cls.__name__: cls for cls in (BatchFrontendMsg, UserReply)}
