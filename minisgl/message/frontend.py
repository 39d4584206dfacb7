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
class TokenLogprob:
    """A token's log-probability, with its text and its bytes.

    data: what the token adds to the answer in UTF-8, be it half a character.
    """

    token: str
    data: bytes
    logprob: float


@dataclass
class UserReply(BaseFrontendMsg):
    """The next piece of the text for request uid; finished: it is the last one.

    error: why there is no answer or no more of it, in one sentence; finished is then True.
    at_end: an end id ended the answer. num_tokens: 1 for a token of the answer; 0 for such an end
    id and for an error. prompt_tokens, cached_tokens: the prompt's, and those of them that the
    prefix cache had. logprobs: of the token itself, then of the best; None: not asked for.
    """

    uid: int
    incremental_output: str
    finished: bool
    error: str | None = None
    at_end: bool = False
    num_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    logprobs: list[TokenLogprob] | None = None


@dataclass
class StatsReply(BaseFrontendMsg):
    """How busy the scheduler is, as in StatsMsg: requests, and slots of the K/V pool."""

    running: int
    waiting: int
    used_tokens: int
    cached_tokens: int
    total_tokens: int


_TYPES = {cls.__name__: cls for cls in (BatchFrontendMsg, UserReply, TokenLogprob, StatsReply)}
