"""One answer as its chunks come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .console import Console
from .results import RawResult

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk


class Answer:
    """What has come of one request; its clock starts when this object is made."""

    def __init__(self, console: Console, input_length: int | None) -> None:
        self.console = console
        self.tics = [time.perf_counter()]
        self.input_len, self.output_len = input_length, 0
        self.is_whole = False
        console.update_input()

    def take(self, chunk: ChatCompletionChunk) -> None:
        """Note the chunk's time if it has content, and what it says of the token counts."""
        if any(choice.delta.content for choice in chunk.choices):
            self.tics.append(time.perf_counter())
            self.console.update_decode()
            if len(self.tics) == 2:
                self.console.update_prefill()
        self.is_whole |= any(choice.finish_reason is not None for choice in chunk.choices)
        if chunk.usage is not None:
            self.input_len = chunk.usage.prompt_tokens
            self.output_len = chunk.usage.completion_tokens

    def end(self, prompt: str, error: str | None) -> RawResult:
        """The stream is over: return its result; without usage a chunk counts as a token."""
        chunks = len(self.tics) - 1
        if chunks == 0:
            self.console.update_prefill()
        if error is None and not self.is_whole:
            error = "the stream ended before the answer did"
        tokens = self.output_len or chunks
        self.console.update_decode(tokens - chunks)
        self.console.update_output()
        return RawResult(self.input_len, tokens, prompt, self.tics, error)
