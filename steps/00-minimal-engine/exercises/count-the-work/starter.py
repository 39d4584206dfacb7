"""Your predictions of the work that chapter 00's engine does; replace the two bodies."""

from __future__ import annotations

from typing import Any


def tokens_computed(prompt: int, new: int, use_cache: bool) -> int:
    """How many tokens go through the layers while a prompt is continued by `new` tokens."""
    raise NotImplementedError("exercise 00: predict the tokens that are computed")


def multiply_adds(config: dict[str, Any], prompt: int, new: int, use_cache: bool) -> dict[str, int]:
    """The multiply-adds of all steps together, by part: "projections", "attention", "head"."""
    raise NotImplementedError("exercise 00: predict the multiply-adds")
