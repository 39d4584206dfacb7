"""Believes that each new token goes through the model, the last one too."""

from __future__ import annotations

from typing import Any


def steps(prompt: int, new: int, use_cache: bool) -> list[tuple[int, int]]:
    """For each step how many rows it computes and how many tokens there are by then."""
    totals = range(prompt, prompt + new + 1)
    if not use_cache:
        return [(total, total) for total in totals]
    return [(prompt if step == 0 else 1, total) for step, total in enumerate(totals)]


def tokens_computed(prompt: int, new: int, use_cache: bool) -> int:
    """How many tokens go through the layers while a prompt is continued by `new` tokens."""
    return sum(rows for rows, _ in steps(prompt, new, use_cache))


def multiply_adds(config: dict[str, Any], prompt: int, new: int, use_cache: bool) -> dict[str, int]:
    """The multiply-adds of all steps together, by part: "projections", "attention", "head"."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    layers, head_dim = config["num_hidden_layers"], config["head_dim"]
    q = config["num_attention_heads"] * head_dim
    kv = config["num_key_value_heads"] * head_dim
    weights = hidden * (2 * q + 2 * kv + 3 * inner)
    work = steps(prompt, new, use_cache)
    return {
        "projections": layers * weights * sum(rows for rows, _ in work),
        "attention": layers * 2 * q * sum(rows * total for rows, total in work),
        "head": len(work) * hidden * config["vocab_size"],
    }
