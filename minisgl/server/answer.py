"""One answer as it grows: its text up to a stop string, its tokens, and why it ended."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from .stop import StopChecker

if TYPE_CHECKING:
    from minisgl.message import TokenLogprob, UserReply

FinishReason = Literal["stop", "length"]


class Piece(NamedTuple):
    """What a reply adds to an answer.

    logprobs: for each token that begins in the text, itself and then the best ones; offsets: where
    in the answer's text each begins. finish_reason: why the answer ends here, or None.
    """

    text: str
    logprobs: list[list[TokenLogprob]]
    offsets: list[int]
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
        self._waiting: deque[tuple[int, list[TokenLogprob]]] = deque()
        self._pieces: list[Piece] = []

    def push(self, reply: UserReply) -> Piece:
        """Return what the reply adds; nothing behind the answer's end. An error is not for here."""
        assert reply.error is None, "a reply with an error is no part of an answer"
        if self.finish_reason is not None:
            return Piece("", [], [], None)
        # The first reply has them, later ones may be without.
        self.prompt_tokens = max(self.prompt_tokens, reply.prompt_tokens)
        self.cached_tokens = max(self.cached_tokens, reply.cached_tokens)
        self.completion_tokens += reply.num_tokens
        if reply.logprobs is not None:
            self._waiting.append((self._length, reply.logprobs))
        self._length += len(reply.incremental_output)
        text, is_met = self._checker.push(reply.incremental_output, reply.finished)
        self._shown += len(text)
        self.is_stopped = is_met and not reply.finished
        if is_met or reply.finished:
            self.finish_reason = "stop" if is_met or reply.at_end else "length"
        tokens = self._tokens(takes_all=reply.finished and not is_met)
        logprobs, offsets = [token[1] for token in tokens], [token[0] for token in tokens]
        piece = Piece(text, logprobs, offsets, self.finish_reason)
        self._pieces.append(piece)
        return piece

    def _tokens(self, takes_all: bool) -> list[tuple[int, list[TokenLogprob]]]:
        """Return the tokens that begin in the text that is shown by now, each once."""
        tokens = []
        while self._waiting and (takes_all or self._waiting[0][0] < self._shown):
            tokens.append(self._waiting.popleft())
        return tokens

    def joined(self) -> Piece:
        """Return all pieces so far as one."""
        return Piece(
            "".join(piece.text for piece in self._pieces),
            [token for piece in self._pieces for token in piece.logprobs],
            [offset for piece in self._pieces for offset in piece.offsets],
            self.finish_reason,
        )
