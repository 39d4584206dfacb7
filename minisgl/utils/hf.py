"""Configs, tokenizers and weight files in the layout of the Hugging Face hub."""

from __future__ import annotations

import copy
import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


def load_tokenizer(model_path: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a folder or hub name."""
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(model_path)
    return tokenizer


@functools.cache
def _load_hf_config(model_path: str) -> PretrainedConfig:
    from transformers import AutoConfig

    config: PretrainedConfig = AutoConfig.from_pretrained(model_path)
    return config


def cached_load_hf_config(model_path: str) -> PretrainedConfig:
    """Return the config of a folder or hub name, read once and copied for each caller."""
    return copy.deepcopy(_load_hf_config(model_path))


def download_hf_weight(model_path: str) -> str:
    """Return the folder with the weights; a hub name is downloaded first, safetensors only."""
    if os.path.isdir(model_path):
        return model_path
    from huggingface_hub import snapshot_download

    return snapshot_download(model_path, allow_patterns=["*.safetensors", "*.json"])
