"""Messages from the scheduler to whoever turns tokens into text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class BaseTokenizerMsg:
    """Anything that a tokenizer or detokenizer may be told."""


@dataclass
class DetokenizeMsg(BaseTokenizerMsg):
    """One token of request uid; finished: it is the last one, an end id included.

    error: why the request was refused, in one sentence; next_token is then -1 and finished True.
    at_end: next_token is an end id that ended the request, and no part of the answer.
    """

    uid: int
    next_token: int
    finished: bool
    error: str | None = None
    at_end: bool = False
