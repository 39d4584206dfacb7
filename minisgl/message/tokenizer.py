"""Messages to those who turn text into tokens and tokens into text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minisgl.core import SamplingParams

from .utils import decode_message, serialize_type


@dataclass
class BaseTokenizerMsg:
    """Anything that a tokenizer or detokenizer may be told."""

    @staticmethod
    def encoder(msg: BaseTokenizerMsg) -> dict[str, Any]:
        """Return the message as a map for msgpack."""
        return serialize_type(msg)

    @staticmethod
    def decoder(json: dict[str, Any]) -> BaseTokenizerMsg:
        """Return the message that a map describes; raises MessageError for another map."""
        return decode_message(BaseTokenizerMsg, _TYPES, json)


@dataclass
class BatchTokenizerMsg(BaseTokenizerMsg):
    """Several messages at once, in order."""

    data: list[BaseTokenizerMsg]


@dataclass
class DetokenizeMsg(BaseTokenizerMsg):
    """One token of request uid; finished: it is the last one, an end id included.

    error: why the request was refused, in one sentence; next_token is then -1 and finished True.
    at_end: next_token is an end id that ended the request, and no part of the answer.
    prompt_tokens, cached_tokens: the prompt's, and those of them that the prefix cache had.
    logprob_ids, logprobs: the token itself, then the best, best first; None: not asked for.
    """

    uid: int
    next_token: int
    finished: bool
    error: str | None = None
    at_end: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    logprob_ids: list[int] | None = None
    logprobs: list[float] | None = None


@dataclass
class StatsMsg(BaseTokenizerMsg):
    """How busy the scheduler is: its requests, and the slots of its K/V pool.

    used_tokens: slots that requests hold; cached_tokens: slots that the prefix cache alone keeps.
    """

    running: int
    waiting: int
    used_tokens: int
    cached_tokens: int
    total_tokens: int


@dataclass
class TokenizeMsg(BaseTokenizerMsg):
    """A request as its client sent it: plain text, the messages of a chat, or token ids."""

    uid: int
    text: str | list[dict[str, str]] | list[int]
    sampling_params: SamplingParams


@dataclass
class AbortMsg(BaseTokenizerMsg):
    """The client of request uid has gone."""

    uid: int


_TYPES = {
    cls.__name__: cls
    for cls in (BatchTokenizerMsg, DetokenizeMsg, StatsMsg, TokenizeMsg, AbortMsg, SamplingParams)
}
