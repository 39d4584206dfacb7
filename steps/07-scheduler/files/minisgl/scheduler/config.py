"""The scheduler's settings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from minisgl.engine import EngineConfig
from minisgl.utils import download_hf_weight, load_tokenizer


@dataclass(frozen=True)
class SchedulerConfig(EngineConfig):
    """The engine's settings, and how its work is cut into batches.

    max_extend_tokens: the most tokens that one prefill batch computes. cache_type: how requests
    share K and V of equal prefixes, a name in SUPPORTED_CACHE_MANAGER.
    Raises ValueError for a setting with which nothing could run.
    """

    max_extend_tokens: int = 8192
    cache_type: str = "radix"
    offline_mode: bool = False

    def __post_init__(self) -> None:
        limits = {"max_extend_tokens": 1, "max_running_req": 1, "page_size": 1}
        overrides = {"num_page_override": 1, "max_seq_len_override": 2}
        limits |= {name: n for name, n in overrides.items() if getattr(self, name) is not None}
        for name, least in limits.items():
            if type(value := getattr(self, name)) is not int or value < least:
                raise ValueError(
                    f"{name} must be a whole number of at least {least}, not {value!r}"
                )

    @cached_property
    def eos_token_ids(self) -> frozenset[int]:
        """Every id that ends an answer: the tokenizer's, the config's, the generation config's."""
        file = Path(download_hf_weight(self.model_path)) / "generation_config.json"
        generation = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        sources = (
            load_tokenizer(self.model_path).eos_token_id,
            getattr(self.hf_config, "eos_token_id", None),
            generation.get("eos_token_id"),
        )
        lists = [ids if isinstance(ids, list) else [ids] for ids in sources]
        return frozenset(i for ids in lists for i in ids if i is not None)
