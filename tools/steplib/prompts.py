"""The prompts on which a chapter is compared with transformers: token ids, drawn from a seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steplib.errors import UserError

SEED = 2024
_LENGTHS = (1, 2, 7, 16, 23, 40)  # one token, one page of 16, and lengths that fit no page
_PAST = 9  # how many tokens a prompt goes past a length at which the model changes its ways

_TRUNK = 48
_SHARED = (
    *((5, 3), (48, 1), (0, 1), (17, 9), (16, 1), (33, 4), (47, 2), (1, 12), (32, 16), (20, 2)),
    *((4, 7), (40, 6)),
)
"""For each prompt of kind "shared": its tokens of the trunk, and its own."""

_TEXTS = (
    "The capital of France is",
    "Water boils at 100 degrees Celsius at sea level. On a high mountain it boils at a lower "
    "temperature, because",
    "def add(a, b):\n    return a + b\n\n\ndef multiply(a, b):\n",
    "Once upon a time a fox and a crow met under a tall tree, and the fox said:",
    "1, 1, 2, 3, 5, 8,",
    "Dear Sir or Madam, I am writing to ask about",
    "A page table maps",
)


@dataclass(frozen=True)
class PromptSet:
    """prompts: token ids. max_tokens: how many tokens each is continued by."""

    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int

    def lists(self) -> list[list[int]]:
        """The prompts as lists, as generate takes them."""
        return [list(prompt) for prompt in self.prompts]


def prompt_set(folder: Path, seed: int = SEED, kind: str = "own") -> PromptSet:
    """6 prompts x 64 tokens for a tiny model, 3 prompts x 32 tokens of real text for others.

    kind "shared": 12 prompts x 24 (others: 16) tokens instead, which share beginnings.
    """
    config = read_config(folder)
    is_tiny = folder.name.startswith("tiny-")
    if kind == "shared":
        tokens = _numbers(config, seed) if is_tiny else _words(folder)
        return PromptSet(_sharing(tokens, turning_length(config) or 0), 24 if is_tiny else 16)
    if is_tiny:
        return PromptSet(_drawn(config, seed), 64)
    return PromptSet(_written(folder, seed), 32)


def _sharing(tokens: list[int], turn: int) -> tuple[tuple[int, ...], ...]:
    """Prompts of a common beginning and a tail of their own; the last goes past the turn."""
    trunk, rest = tokens[:_TRUNK], tokens[_TRUNK:]
    prompts = []
    for shared, own in _SHARED[:-1]:
        prompts.append((*trunk[:shared], *rest[:own]))
        rest = rest[own:]
    shared, own = _SHARED[-1]
    return (*prompts, (*trunk[:shared], *rest[: max(own, turn + _PAST - shared)]))


def _numbers(config: dict[str, Any], seed: int) -> list[int]:
    import numpy as np

    rng = np.random.Generator(np.random.PCG64([seed, _TRUNK]))
    count = 2 * _TRUNK + (turning_length(config) or 0) + sum(own for _, own in _SHARED)
    numbers: list[int] = rng.integers(0, config["vocab_size"], count).tolist()
    return numbers


def _words(folder: Path) -> list[int]:
    from tokenizers import Tokenizer

    text = " ".join((_TEXTS[1], _TEXTS[3], *_TEXTS))
    ids: list[int] = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    return ids


def read_config(folder: Path) -> dict[str, Any]:
    """A checkpoint's config.json; UserError when it can't be read."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        raise UserError(f"{folder}/config.json can't be read; make the checkpoint again.") from None
    return dict(config)


def turning_length(config: dict[str, Any]) -> int | None:
    """Where the model changes its ways: original length of rope scaling, or attention window."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    original = scaling.get("original_max_position_embeddings")
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    return original or window


def _drawn(config: dict[str, Any], seed: int) -> tuple[tuple[int, ...], ...]:
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(seed))
    turn = turning_length(config)
    lengths = (*_LENGTHS[:-1], turn + _PAST if turn else _LENGTHS[-1])
    return tuple(tuple(rng.integers(0, config["vocab_size"], n).tolist()) for n in lengths)


def _written(folder: Path, seed: int) -> tuple[tuple[int, ...], ...]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    start = 0 if seed == SEED else seed % len(_TEXTS)
    texts = [_TEXTS[(start + i) % len(_TEXTS)] for i in range(3)]
    return tuple(tuple(tokenizer.encode(text).ids) for text in texts)
