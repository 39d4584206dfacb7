"""What loading keeps: merged and converted weights are copies, all else stays in the file."""

from __future__ import annotations

from math import prod
from typing import Any

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def merged_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Name and shape of each merged tensor of layer 0."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"] + 2 * config["num_key_value_heads"]
    rows = heads * config["head_dim"]
    layer = "model.layers.0"
    shapes = {
        f"{layer}.self_attn.qkv_proj.weight": [rows, hidden],
        f"{layer}.mlp.gate_up_proj.weight": [2 * inner, hidden],
    }
    if config["model_type"] == "qwen2":
        shapes[f"{layer}.self_attn.qkv_proj.bias"] = [rows]
    return shapes


def others(config: dict[str, Any]) -> int:
    """How many numbers all weights have that are not merged."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    norms = 2 * hidden + (2 * head if config["model_type"] == "qwen3" else 0)
    layer = hidden * config["num_attention_heads"] * head + hidden * inner + norms
    ends = (1 if config["tie_word_embeddings"] else 2) * config["vocab_size"] * hidden + hidden
    return int(config["num_hidden_layers"] * layer + ends)


def own_bytes(config: dict[str, Any], stored: str, wanted: str) -> int:
    """Bytes of the loaded weights that are copies. stored, wanted: the file's dtype, the engine's.

    Both are one of "bfloat16", "float16" and "float32".
    """
    merged = sum(map(prod, merged_shapes(config).values())) * config["num_hidden_layers"]
    is_converted = stored != wanted
    return (merged + (others(config) if is_converted else 0)) * BYTES[wanted]


def group_of(name: str) -> tuple[str, tuple[str, ...]] | None:
    """The merged tensor that a weight is a part of, and that one's parts; None for others."""
    owner, _, kind = name.rpartition(".")
    prefix, _, part = owner.rpartition(".")
    parts = next((parts for parts in GROUPS if part in parts), None)
    return (f"{prefix}.{parts}.{kind}", parts) if parts else None


def most_waiting(read: list[tuple[str, int]]) -> int:
    """The most bytes that wait to be merged. read: name and bytes of each weight, in file order."""
    waiting: dict[str, list[int]] = {}
    most = 0
    for name, size in read:
        if (group := group_of(name)) is None:
            continue
        waiting.setdefault(group[0], []).append(size)
        if len(waiting[group[0]]) == len(group[1]):
            del waiting[group[0]]
        most = max(most, sum(map(sum, waiting.values())))
    return most
