"""Log-probabilities in the two shapes of OpenAI's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minisgl.message import TokenLogprob

    from .answer import Token

Json = dict[str, Any]

LOWEST = -9999.0
"""The log-probability of a token that is impossible: JSON has no infinity."""


def chat_logprobs(tokens: Sequence[Token], top: int) -> Json:
    """Return the tokens of a chat's answer, each with the best ones in its place, top of them."""
    content = [
        {**_described(token), "top_logprobs": [_described(each) for each in best[:top]]}
        for _, (token, *best) in tokens
    ]
    return {"content": content, "refusal": None}


def text_logprobs(tokens: Sequence[Token], top: int) -> Json:
    """Return the tokens of a completion in columns; the best of each include the token itself."""
    best: list[dict[str, float]] = []
    for _, (token, *others) in tokens:
        best.append({})
        for each in (token, *others[:top]):  # the first of a name is the most probable
            best[-1].setdefault(_name(each), _finite(each.logprob))
    return {
        "tokens": [_name(token.logprobs[0]) for token in tokens],
        "token_logprobs": [_finite(token.logprobs[0].logprob) for token in tokens],
        "top_logprobs": best,
        "text_offset": [token.offset for token in tokens],
    }


def _finite(logprob: float) -> float:
    return logprob if logprob > LOWEST else LOWEST


def _described(token: TokenLogprob) -> Json:
    return {
        "token": token.token,
        "logprob": _finite(token.logprob),
        "bytes": list(token.data),
    }


def _name(token: TokenLogprob) -> str:
    """Return a token's text or, where it is not whole characters, its bytes, as OpenAI does."""
    try:
        token.data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.data)
    return token.token
