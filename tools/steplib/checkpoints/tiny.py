"""The tiny checkpoints: real architectures with drawn weights, the same bytes on every machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from steplib.checkpoints.recipe import Tiny
from steplib.checkpoints.tensorfile import Tensors, write_json, write_shards
from steplib.checkpoints.tokenizer import VOCABULARY, write_tokenizer

Kind = Literal["embedding", "linear", "norm", "bias"]
Entry = tuple[str, tuple[int, ...], Kind]


def write_tiny(folder: Path, tiny: Tiny) -> None:
    """All files of the checkpoint, into a folder that exists."""
    config = tiny.config | {"vocab_size": VOCABULARY} | dict.fromkeys(tiny.null)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", tiny.generation)
    write_tokenizer(folder)
    write_shards(folder, draw(tiny), tiny.cut_after)


def draw(tiny: Tiny) -> Tensors:
    """Every weight, float32: linear gain / sqrt(fan in), norms 1 + 0.2 z, biases 0.5 z."""
    source = np.random.PCG64(tiny.seed)
    tensors: Tensors = {}
    for name, shape, kind in layout(tiny.config):
        z = bell(source, math.prod(shape)).reshape(shape)
        if kind == "norm":
            tensors[name] = np.float32(1) + np.float32(0.2) * z
        else:
            linear = tiny.gain / math.sqrt(shape[-1])
            std = {"embedding": tiny.embedding_std, "bias": 0.5}.get(kind, linear)
            tensors[name] = np.float32(std) * z
    if tiny.head_in_files:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    return tensors


def bell(source: np.random.PCG64, count: int) -> NDArray[np.float32]:
    """Numbers close to a normal of mean 0 and variance 1: each a sum of twelve uniform ones.

    Only whole numbers are added, so that no machine's `log` or `exp` has a say in the digits.
    """
    raw = np.asarray(source.random_raw(3 * count), dtype="<u8").view("<u2")
    sums = raw.reshape(count, 12).sum(axis=1, dtype=np.int32) - 6 * 65_535
    z: NDArray[np.float32] = sums.astype(np.float32) / np.float32(65_536)
    return z


def layout(config: dict[str, Any]) -> Iterator[Entry]:
    """Each tensor of the model in the order of the files: name, shape, kind."""
    hidden = config["hidden_size"]
    yield "model.embed_tokens.weight", (VOCABULARY, hidden), "embedding"
    for number in range(config["num_hidden_layers"]):
        for name, shape, kind in _layer(config):
            yield f"model.layers.{number}.{name}", shape, kind
    yield "model.norm.weight", (hidden,), "norm"
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (VOCABULARY, hidden), "linear"


def _layer(config: dict[str, Any]) -> Iterator[Entry]:
    hidden = config["hidden_size"]
    yield "input_layernorm.weight", (hidden,), "norm"
    yield from _attention(config)
    yield "post_attention_layernorm.weight", (hidden,), "norm"
    if "num_experts" not in config:
        yield from _mlp("mlp", hidden, config["intermediate_size"])
        return
    yield "mlp.gate.weight", (config["num_experts"], hidden), "linear"
    for expert in range(config["num_experts"]):
        yield from _mlp(f"mlp.experts.{expert}", hidden, config["moe_intermediate_size"])


def _attention(config: dict[str, Any]) -> Iterator[Entry]:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    dim = config.get("head_dim", hidden // heads)
    rows = {"q": heads * dim}
    rows |= dict.fromkeys("kv", config["num_key_value_heads"] * dim)
    for letter, out in rows.items():
        yield f"self_attn.{letter}_proj.weight", (out, hidden), "linear"
        if config["model_type"] == "qwen2":
            yield f"self_attn.{letter}_proj.bias", (out,), "bias"
    yield "self_attn.o_proj.weight", (hidden, heads * dim), "linear"
    if config["model_type"].startswith("qwen3"):
        yield "self_attn.q_norm.weight", (dim,), "norm"
        yield "self_attn.k_norm.weight", (dim,), "norm"


def _mlp(name: str, hidden: int, inner: int) -> Iterator[Entry]:
    yield f"{name}.gate_proj.weight", (inner, hidden), "linear"
    yield f"{name}.up_proj.weight", (inner, hidden), "linear"
    yield f"{name}.down_proj.weight", (hidden, inner), "linear"
