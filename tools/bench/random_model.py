"""A checkpoint without weights, in any size, for runs in which only the time of a step counts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

SIZES = {
    "layers": ("num_hidden_layers", 2, "decoder layers"),
    "hidden": ("hidden_size", 8192, "hidden size"),
    "intermediate": ("intermediate_size", 130048, "width of each MLP"),
    "heads": ("num_attention_heads", 8, "query heads"),
    "kv-heads": ("num_key_value_heads", 2, "key and value heads"),
    "head-dim": ("head_dim", 128, "size of a head"),
    "vocab": ("vocab_size", 256000, "token ids"),
}
"""Option: (its key in config.json, default, help).

The defaults weigh 21 GB in bfloat16: few and wide layers give the device much to read for few
launches. The widest tensor has just under 2^31 numbers.
"""


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Give the parser an option for each size."""
    for option, (_, default, text) in SIZES.items():
        parser.add_argument(f"--{option}", type=int, default=default, help=f"{text} ({default})")


def size_options(args: argparse.Namespace) -> str:
    """The sizes as they would be given on the command line."""
    return " ".join(f"--{name} {getattr(args, name.replace('-', '_'))}" for name in SIZES)


def write_model(folder: Path, args: argparse.Namespace) -> str:
    """Write config.json and a tokenizer of one word to folder; return the folder."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    sizes = {key: getattr(args, name.replace("-", "_")) for name, (key, *_) in SIZES.items()}
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        **sizes,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    words = Tokenizer(WordLevel({"word": 0}, unk_token="word"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(str(folder))
    return str(folder)
