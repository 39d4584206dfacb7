"""One answer as it grows: its text up to a stop string, its tokens, and why it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from .stop import StopChecker

if TYPE_CHECKING:
    from minisgl.message import TokenLogprob, UserReply

FinishReason = Literal["stop", "length"]


class Token(NamedTuple):
    """A token of an answer: where in the text it begins, and itself, then the best."""

    offset: int
    logprobs: list[TokenLogprob]


class Piece(NamedTuple):
    """What a reply adds to an answer.

    tokens: those that begin in the text, if log-probabilities were asked for. finish_reason: why
    the answer ends here, or None.
    """

    text: str
    tokens: Sequence[Token]
    finish_reason: FinishReason | None


class Answer:
    """The state of one choice. The replies to its request are pushed one after the other.

    completion_tokens: tokens of the answer up to the one that completes a stop string. is_stopped:
    a stop string was met while the scheduler still works on the request, which is to be aborted.
    """

    def __init__(self, stops: list[str]) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.is_stopped = False
        self._checker = StopChecker(stops)
        self._length = 0  # of all text so far, what is held back included
        self._shown = 0
        self._waiting: deque[Token] = deque()
        self._texts: list[str] = []
        self._tokens: list[Token] = []

    def push(self, reply: UserReply) -> Piece:
        """Return what the reply adds; nothing behind the answer's end. An error is not for here."""
        assert reply.error is None, "a reply with an error is no part of an answer"
        if self.finish_reason is not None:
            return Piece("", (), None)
        # The first reply has them, later ones may be without.
        self.prompt_tokens = max(self.prompt_tokens, reply.prompt_tokens)
        self.cached_tokens = max(self.cached_tokens, reply.cached_tokens)
        self.completion_tokens += reply.num_tokens
        if reply.logprobs is not None and reply.num_tokens:  # an end id is not part of it
            self._waiting.append(Token(self._begin(reply), reply.logprobs))
        self._length += len(reply.incremental_output)
        text, is_met = self._checker.push(reply.incremental_output, reply.finished)
        self._shown += len(text)
        self.is_stopped = is_met and not reply.finished
        if is_met or reply.finished:
            self.finish_reason = "stop" if is_met or reply.at_end else "length"
        tokens = self._shown_tokens(takes_all=reply.finished and not is_met)
        self._texts.append(text)
        self._tokens += tokens
        return Piece(text, tokens, self.finish_reason)

    def _begin(self, reply: UserReply) -> int:
        """Return where a reply's token begins; it may bring text that was held back before."""
        assert reply.logprobs is not None, "a token has its place together with its value"
        text, own = reply.incremental_output, reply.logprobs[0].token
        return self._length + (len(text) - len(own) if text.endswith(own) else 0)

    def _shown_tokens(self, takes_all: bool) -> Sequence[Token]:
        """Return the tokens that begin in the text that is shown by now, each once."""
        if not self._waiting:
            return ()
        tokens = []
        while self._waiting and (takes_all or self._waiting[0].offset < self._shown):
            tokens.append(self._waiting.popleft())
        return tokens

    def joined(self) -> Piece:
        """Return all pieces so far as one."""
        return Piece("".join(self._texts), self._tokens, self.finish_reason)
