"""The replies of the API, as its OpenAPI page shows them."""

from __future__ import annotations

import time
from typing import Literal

from pydantic import BaseModel, Field

FinishReason = Literal["stop", "length"]


class PromptTokensDetails(BaseModel):
    """Where a prompt's tokens came from."""

    cached_tokens: int = Field(description="Of the prompts, found in the prefix cache.")


class Usage(BaseModel):
    """Token counts of a request. An end token that ends an answer does not count."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class TopLogprob(BaseModel):
    """A token and its log-probability; -9999 if it is impossible."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(TopLogprob):
    """A token of an answer, and the best tokens in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Log-probabilities of an answer's tokens."""

    content: list[ChatTokenLogprob]
    refusal: None = None


class ChatMessage(BaseModel):
    """An answer."""

    role: Literal["assistant"]
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """One of the answers to a chat."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(BaseModel):
    """The answers to a chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(BaseModel):
    """What is new of an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(BaseModel):
    """The next piece of one of the answers to a chat."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class ChatCompletionChunk(BaseModel):
    """An event of a chat's stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None


class TextLogprobs(BaseModel):
    """Log-probabilities of an answer's tokens, and where in its text each begins."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(BaseModel):
    """One of the answers; in a stream its next piece, whose finish_reason may be null."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None


class Completion(BaseModel):
    """The answers to prompts, or an event of their stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage | None = None


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: str = "model"
    created: int = Field(default_factory=lambda: int(time.time()))
    owned_by: str = "mini-sglang"
    root: str


class ModelList(BaseModel):
    """The models that are served."""

    object: str = "list"
    data: list[ModelCard] = Field(default_factory=list)


class ErrorDetail(BaseModel):
    """What is wrong, in one sentence, and with which field."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """An error."""

    error: ErrorDetail
