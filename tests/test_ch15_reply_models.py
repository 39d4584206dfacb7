"""Chapter 15: the OpenAPI page shows each field of each reply, whatever part of it a model is."""

from __future__ import annotations

from pairs import equal

OPENAI = ["choices", "created", "id", "model", "object", "usage"]
FIELDS = {
    "PromptTokensDetails": ["cached_tokens"],
    "Usage": ["completion_tokens", "prompt_tokens", "prompt_tokens_details", "total_tokens"],
    "TopLogprob": ["bytes", "logprob", "token"],
    "ChatTokenLogprob": ["bytes", "logprob", "token", "top_logprobs"],
    "ChatLogprobs": ["content", "refusal"],
    "ChatMessage": ["content", "refusal", "role"],
    "ChatChoice": ["finish_reason", "index", "logprobs", "message"],
    "ChatCompletion": OPENAI,
    "ChatDelta": ["content", "role"],
    "ChatChunkChoice": ["delta", "finish_reason", "index", "logprobs"],
    "ChatCompletionChunk": OPENAI,
    "TextLogprobs": ["text_offset", "token_logprobs", "tokens", "top_logprobs"],
    "TextChoice": ["finish_reason", "index", "logprobs", "text"],
    "Completion": OPENAI,
    "ModelCard": ["created", "id", "object", "owned_by", "root"],
    "ModelList": ["data", "object"],
    "ErrorDetail": ["code", "message", "param", "type"],
    "ErrorReply": ["error"],
}


def probe_each_model_of_a_reply_has_its_fields(seed):
    from pydantic import BaseModel

    from minisgl.server import reply_models

    return {
        name: sorted(model.model_json_schema()["properties"])
        for name, model in vars(reply_models).items()
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not BaseModel
    }


def judge_each_model_of_a_reply_has_its_fields(seed, got):
    equal(got, FIELDS, "the fields of each model, as the OpenAPI document has them")
