"""Reads a GGUF file of the Llama family and gives it back as a transformers checkpoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steplib.checkpoints.tensorfile import Tensors, write_json, write_tensors
from steplib.checkpoints.tokenizer import byte_level, fast_tokenizer
from steplib.errors import UserError

if TYPE_CHECKING:
    from gguf import GGUFReader

CONTROL = 3  # the token type of special tokens in GGUF
_TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(source: Path, folder: Path) -> None:
    """Write config.json, the tokenizer and model.safetensors (float32) into `folder`."""
    reader = _open(source)
    facts = {key: field.contents() for key, field in reader.fields.items()}
    config = config_table(facts)
    write_json(folder / "config.json", config)
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(folder / "generation_config.json", ends)
    _write_tokenizer(folder, facts)
    write_tensors(folder / "model.safetensors", _tensors(reader, config))


def config_table(facts: dict[str, Any]) -> dict[str, Any]:
    """config.json of a Llama model from the GGUF's facts."""
    hidden, heads = facts["llama.embedding_length"], facts["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": facts["llama.vocab_size"],
        "hidden_size": hidden,
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "max_position_embeddings": facts["llama.context_length"],
        "rms_norm_eps": _short(facts["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": _short(facts["llama.rope.freq_base"]),
        },
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "dtype": "float32",
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
    }


def _short(number: float) -> float:
    """The few digits that were meant: GGUF keeps 1e-05 as the nearest float32."""
    return float(f"{number:.6g}")


def _open(source: Path) -> GGUFReader:
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError:
        raise UserError(
            'the package gguf is missing; run `python -m pip install -e ".[dev]"`.'
        ) from None
    return GGUFReader(source)


def _tensors(reader: GGUFReader, config: dict[str, Any]) -> Tensors:
    from gguf import dequantize

    tensors: Tensors = {}
    for entry in reader.tensors:
        name = transformers_name(entry.name)
        weight = np.asarray(dequantize(entry.data, entry.tensor_type), dtype=np.float32)
        if name.endswith("q_proj.weight"):
            weight = halves_apart(weight, config["num_attention_heads"])
        if name.endswith("k_proj.weight"):
            weight = halves_apart(weight, config["num_key_value_heads"])
        tensors[name] = weight
    return dict(sorted(tensors.items()))


def transformers_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if block and block[2] in _IN_BLOCK:
        return f"model.layers.{block[1]}.{_IN_BLOCK[block[2]]}.weight"
    stem = name.removesuffix(".weight")
    if stem not in _TOP:
        raise UserError(f"the GGUF file holds a tensor {name}, which a Llama model does not have.")
    return f"{_TOP[stem]}.weight"


def halves_apart(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo GGUF's order of rows: it pairs the two numbers that rope turns as neighbors.

    weight: (heads * head_dim, hidden). transformers wants the first half of each head's rows
    before the second half.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def _write_tokenizer(folder: Path, facts: dict[str, Any]) -> None:
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    kinds: list[int] = facts["tokenizer.ggml.token_type"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    special = {
        t: n for (t, n), kind in zip(vocabulary.items(), kinds, strict=True) if kind == CONTROL
    }
    pairs = [merge.split(" ") for merge in facts["tokenizer.ggml.merges"]]
    cut = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            byte_level(use_regex=True),
        ],
    }
    merges = [(left, right) for left, right in pairs]
    write_json(folder / "tokenizer.json", fast_tokenizer(vocabulary, merges, special, cut))
    end = tokens[facts["tokenizer.ggml.eos_token_id"]]
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": facts["llama.context_length"],
            "clean_up_tokenization_spaces": False,
            "bos_token": tokens[facts["tokenizer.ggml.bos_token_id"]],
            "eos_token": end,
            "pad_token": tokens[facts["tokenizer.ggml.padding_token_id"]],
            "unk_token": tokens[facts["tokenizer.ggml.unknown_token_id"]],
        },
    )
    template = facts["tokenizer.chat_template"]
    (folder / "chat_template.jinja").write_bytes(template.encode())
