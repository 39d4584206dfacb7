"""Prompts whose number of tokens is known beforehand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

ENOUGH = 512
"""Words to draw from; a tokenizer with few short words gives fewer."""
_AT_A_TIME = 1024


def generate_prompt(tokenizer: Any, n: int, rng: random.Random | None = None) -> str:
    """Return random words that are n tokens together, special tokens and chat template aside.

    rng: where they are drawn from; the random module's own generator by default.
    """
    if n < 1:
        raise ValueError(f"a prompt needs at least one token, not {n}")
    return join_words(tokenizer, draw_words(tokenizer, n, rng or random))


def draw_words(tokenizer: Any, n: int, rng: Any) -> list[str]:
    """Draw n words that are one token each. rng: a generator, or the random module."""
    words: list[str] = rng.choices(_words(tokenizer), k=n)
    return words


def join_words(tokenizer: Any, words: Sequence[str]) -> str:
    """Return the words as one text; ValueError when it isn't one token for each."""
    text = " ".join(words)
    [count] = _lengths(tokenizer, [text])
    if count != len(words):
        raise ValueError(f"this tokenizer makes {count} tokens of {len(words)} words of one each")
    return text


@lru_cache(maxsize=4)
def _words(tokenizer: Any) -> tuple[str, ...]:
    """Words that are one token at the beginning of a text and after a space, lowest ids first."""
    found: dict[str, None] = {}
    for start in range(0, len(tokenizer), _AT_A_TIME):
        ids = range(start, min(start + _AT_A_TIME, len(tokenizer)))
        texts = {text.strip() for text in tokenizer.batch_decode([[i] for i in ids])}
        words = sorted(text for text in texts if text.isascii() and text.isalpha())
        repeated = [" ".join([word] * times) for word in words for times in (1, 2, 3)]
        lengths = _lengths(tokenizer, repeated)
        for i, word in enumerate(words):
            if lengths[3 * i : 3 * i + 3] == [1, 2, 3]:
                found[word] = None
        if len(found) >= ENOUGH:
            break
    if not found:
        raise ValueError("no word is one token of this tokenizer, so no prompt can be made of it")
    return tuple(found)[:ENOUGH]


def _lengths(tokenizer: Any, texts: list[str]) -> list[int]:
    if not texts:
        return []
    # verbose: whether a prompt is too long for the model is the server's to say
    encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return [len(ids) for ids in encoded]
