"""The bodies and events that clients get, made as plain maps, since a stream makes many."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .logprobs import chat_logprobs, text_logprobs
from .protocol import ChatCompletionRequest, CompletionRequest

if TYPE_CHECKING:
    from .answer import Answer, Piece
    from .errors import ApiError

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"
"""The event that ends a stream."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dump(body: Mapping[str, Any]) -> bytes:
    """Return body as JSON; half a surrogate pair becomes a question mark."""
    return _encode(body).encode("utf-8", "replace")


def event(body: Mapping[str, Any]) -> bytes:
    """Return body as an event of a stream."""
    return b"data: %b\n\n" % dump(body)


def error_event(error: ApiError) -> bytes:
    """Return the event that tells of an error in mid-stream."""
    return event(error.body())


def usage(answers: Sequence[Answer], n: int) -> Json:
    """Return the token counts of all answers, n for each prompt; a prompt counts once."""
    prompts = answers[::n]
    read = sum(answer.prompt_tokens for answer in prompts)
    written = sum(answer.completion_tokens for answer in answers)
    cached = sum(answer.cached_tokens for answer in prompts)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


class OpenAIReply:
    """What the two kinds of replies of OpenAI's API have in common.

    A stream is begin and any number of piece for each choice, then end; anything else is whole.
    Choice i * n + j is answer j to prompt i.
    """

    prefix: ClassVar[str]
    whole_name: ClassVar[str]
    chunk_name: ClassVar[str]

    def __init__(
        self, request: ChatCompletionRequest | CompletionRequest, top_logprobs: int | None
    ) -> None:
        self.n, self.includes_usage = request.n, request.include_usage
        self.top_logprobs = top_logprobs
        self._head = {
            "id": self.prefix + uuid.uuid4().hex,
            "object": self.chunk_name if request.stream else self.whole_name,
            "created": int(time.time()),
            "model": request.model,
        }
        self._tail = {"usage": None} if self.includes_usage else {}

    def whole(self, answers: Sequence[Answer]) -> Json:
        """Return the body with all answers, which are finished."""
        choices = [self._choice(i, answer.joined()) for i, answer in enumerate(answers)]
        return {**self._head, "choices": choices, "usage": usage(answers, self.n)}

    def begin(self, index: int) -> bytes:
        """Return the event before a choice's first piece; none by default."""
        return b""

    def piece(self, index: int, piece: Piece) -> bytes:
        """Return the event for a choice's next piece; nothing if there is nothing to tell."""
        if not (piece.text or piece.tokens or piece.finish_reason):
            return b""
        return self._chunk(self._delta(index, piece))

    def end(self, answers: Sequence[Answer]) -> bytes:
        """Return the events behind the last piece: the token counts if asked for, and DONE."""
        if not self.includes_usage:
            return DONE
        return event({**self._head, "choices": [], "usage": usage(answers, self.n)}) + DONE

    def _chunk(self, choice: Json) -> bytes:
        return event({**self._head, "choices": [choice], **self._tail})

    def _choice(self, index: int, piece: Piece) -> Json:
        raise NotImplementedError

    def _delta(self, index: int, piece: Piece) -> Json:
        raise NotImplementedError


class ChatReply(OpenAIReply):
    """The reply to a chat."""

    prefix = "chatcmpl-"
    whole_name = "chat.completion"
    chunk_name = "chat.completion.chunk"

    def __init__(self, request: ChatCompletionRequest) -> None:
        top = (request.top_logprobs or 0) if request.logprobs else None
        super().__init__(request, top)

    def begin(self, index: int) -> bytes:
        """Return the event that names the role."""
        delta = {"role": "assistant", "content": ""}
        return self._chunk(
            {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        )

    def _choice(self, index: int, piece: Piece) -> Json:
        message = {"role": "assistant", "content": piece.text, "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(piece),
            "finish_reason": piece.finish_reason,
        }

    def _delta(self, index: int, piece: Piece) -> Json:
        return {
            "index": index,
            "delta": {"content": piece.text} if piece.text else {},
            "logprobs": self._logprobs(piece) if piece.tokens else None,
            "finish_reason": piece.finish_reason,
        }

    def _logprobs(self, piece: Piece) -> Json | None:
        return None if (top := self.top_logprobs) is None else chat_logprobs(piece.tokens, top)


class TextReply(OpenAIReply):
    """The reply to prompts that are continued."""

    prefix = "cmpl-"
    whole_name = chunk_name = "text_completion"

    def __init__(self, request: CompletionRequest) -> None:
        super().__init__(request, request.logprobs)

    def _choice(self, index: int, piece: Piece) -> Json:
        return {
            "index": index,
            "text": piece.text,
            "logprobs": self._logprobs(piece),
            "finish_reason": piece.finish_reason,
        }

    _delta = _choice

    def _logprobs(self, piece: Piece) -> Json | None:
        return None if (top := self.top_logprobs) is None else text_logprobs(piece.tokens, top)


class GenerateReply:
    """The reply to /generate: a stream of plain text, a line of data for each of its lines."""

    def whole(self, answers: Sequence[Answer]) -> Json:
        """Not for this reply, which is always a stream."""
        raise NotImplementedError

    def begin(self, index: int) -> bytes:
        """Return the event before the first piece: there is none."""
        return b""

    def piece(self, index: int, piece: Piece) -> bytes:
        """Return the event for the next piece of text, if it has any."""
        if not piece.text:
            return b""
        lines = piece.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return "".join([*(f"data: {line}\n" for line in lines), "\n"]).encode("utf-8", "replace")

    def end(self, answers: Sequence[Answer]) -> bytes:
        """Return the event behind the last piece."""
        return DONE
