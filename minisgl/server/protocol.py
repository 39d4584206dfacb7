"""The requests that the API takes: their fields, defaults and limits."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from minisgl.core import SamplingParams

from .errors import refused
from .fields import (
    LARGEST,
    Content,
    MaxTokens,
    Penalty,
    Prompt,
    Role,
    Seed,
    Stops,
    Text,
    TopK,
)
from .strict import OFF_IN_MESSAGES, OFF_IN_STREAM_OPTIONS, StrictModel

AnyPrompt = str | list[dict[str, str]] | list[int]
"""Text, the messages of a chat, or token ids: what a TokenizeMsg carries."""


class StreamOptions(StrictModel):
    """What a stream holds beside the answer."""

    off: ClassVar[dict[str, list[object]]] = OFF_IN_STREAM_OPTIONS

    include_usage: bool = Field(False, description="Send the token counts before the end.")


class Message(StrictModel):
    """A message of a chat. developer is the same as system."""

    off: ClassVar[dict[str, list[object]]] = OFF_IN_MESSAGES

    role: Role
    content: Content = Field(description="Text, or parts of text, which are joined.")

    def plain(self) -> dict[str, str]:
        """Return the message as a chat template takes it."""
        return {
            "role": "system" if self.role == "developer" else self.role,
            "content": self.content,
        }


class SamplingFields(StrictModel):
    """How tokens are chosen, the same in all requests."""

    temperature: float = Field(1.0, ge=0, le=2, description="0 always takes the best token.")
    top_p: float = Field(1.0, gt=0, le=1, description="Choose among tokens of this probability.")
    top_k: TopK = Field(-1, description="Choose among that many tokens; -1 is off.")
    seed: Seed | None = Field(None, description="Makes the answer repeatable.")
    ignore_eos: bool = Field(False, description="Go on behind the model's end tokens.")

    def _params(self, choice: int, max_tokens: int, **more: Any) -> SamplingParams:
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            seed=None if self.seed is None else self.seed + choice,
            ignore_eos=self.ignore_eos,
            max_tokens=max_tokens,
            **more,
        )


class OpenAIFields(SamplingFields):
    """What chats and completions have in common."""

    model: Text = Field(description="The model's name, as /v1/models has it.")
    stream: bool = Field(False, description="Send the answer piece by piece, as events.")
    stream_options: StreamOptions | None = Field(None, description="Only with stream.")
    n: int = Field(1, ge=1, le=128, description="Answers for each prompt; each has its own seed.")
    stop: Stops = Field([], description="Texts that end an answer, which ends before them.")
    presence_penalty: Penalty = Field(0.0, description="Taken from tokens that the answer has.")
    frequency_penalty: Penalty = Field(0.0, description="The same, for each time that it has them.")

    @model_validator(mode="after")
    def _check_stream_options(self) -> OpenAIFields:
        if self.include_usage and not self.stream:
            raise refused("can only ask for usage with stream", "stream_options")
        return self

    @property
    def include_usage(self) -> bool:
        """Whether a stream is to send the token counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def stops(self) -> list[str]:
        """Return the texts that end an answer."""
        return self.stop

    def _openai_params(
        self, choice: int, max_tokens: int, top_logprobs: int | None
    ) -> SamplingParams:
        return self._params(
            choice,
            max_tokens,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            top_logprobs=top_logprobs,
        )


class ChatCompletionRequest(OpenAIFields):
    """A chat that is to be answered. Other fields of OpenAI's API are not supported."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: MaxTokens | None = Field(None, description="Default: to the context's end.")
    max_completion_tokens: MaxTokens | None = Field(None, description="The same as max_tokens.")
    logprobs: bool = Field(False, description="Send each token's log-probability.")
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="Those of that many best tokens too; only with logprobs."
    )

    @model_validator(mode="after")
    def _check_pairs(self) -> ChatCompletionRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise refused("can only be given with logprobs", "top_logprobs")
        limits = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(limits) > 1:
            raise refused("must be the same as max_tokens, or left out", "max_completion_tokens")
        return self

    def prompts(self) -> list[AnyPrompt]:
        """Return the one prompt: its messages."""
        return [[message.plain() for message in self.messages]]

    def sampling_params(self, choice: int) -> SamplingParams:
        """Return how the tokens of a prompt's choice are chosen; choice: from 0 to n - 1."""
        limit = self.max_completion_tokens or self.max_tokens or LARGEST
        top = (self.top_logprobs or 0) if self.logprobs else None
        return self._openai_params(choice, limit, top)


class CompletionRequest(OpenAIFields):
    """Texts that are to be continued. Other fields of OpenAI's API are not supported."""

    prompt: Prompt = Field(description="Text or token ids, or a list of either.")
    max_tokens: MaxTokens = Field(16, description="The most tokens of an answer.")
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = Field(
        None, description="Send each token's log-probability and those of that many best tokens."
    )

    def prompts(self) -> list[AnyPrompt]:
        """Return the prompts, each a text or token ids."""
        return list(self.prompt)

    def sampling_params(self, choice: int) -> SamplingParams:
        """Return how the tokens of a prompt's choice are chosen; choice: from 0 to n - 1."""
        return self._openai_params(choice, self.max_tokens, self.logprobs)


class GenerateRequest(SamplingFields):
    """A text that is to be continued, streamed as plain text; the best token unless told."""

    off: ClassVar[dict[str, list[object]]] = {}

    n: ClassVar[int] = 1
    stream: ClassVar[bool] = True
    include_usage: ClassVar[bool] = False

    prompt: Text
    max_tokens: MaxTokens
    temperature: float = Field(0.0, ge=0, le=2, description="0 always takes the best token.")

    def prompts(self) -> list[AnyPrompt]:
        """Return the one prompt."""
        return [self.prompt]

    def stops(self) -> list[str]:
        """Return the texts that end an answer: there are none."""
        return []

    def sampling_params(self, choice: int) -> SamplingParams:
        """Return how tokens are chosen."""
        return self._params(choice, self.max_tokens)


AnyRequest = ChatCompletionRequest | CompletionRequest | GenerateRequest
