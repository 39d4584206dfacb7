"""The engine's settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from minisgl.distributed.info import DistributedInfo
from minisgl.models import ModelConfig
from minisgl.utils import cached_load_hf_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class EngineConfig:
    """What to load and how much of it may run at once.

    model_path: a folder or hub name. memory_ratio: the share of the device's memory that weights
    and KV pool may take together. The overrides replace what the checkpoint's context length and
    the free memory would give.
    """

    model_path: str
    tp_info: DistributedInfo
    dtype: torch.dtype
    max_running_req: int = 256
    attention_backend: str = "auto"
    moe_backend: str = "auto"
    cuda_graph_bs: list[int] | None = None
    cuda_graph_max_bs: int | None = None
    page_size: int = 1
    memory_ratio: float = 0.9
    distributed_timeout: float = 60.0
    use_dummy_weight: bool = False
    use_pynccl: bool = True
    max_seq_len_override: int | None = None
    num_page_override: int | None = None

    @cached_property
    def hf_config(self) -> PretrainedConfig:
        """The checkpoint's config as transformers reads it."""
        return cached_load_hf_config(self.model_path)

    @cached_property
    def model_config(self) -> ModelConfig:
        """The checkpoint's config as the engine needs it."""
        return ModelConfig.from_hf(self.hf_config)

    @property
    def max_seq_len(self) -> int:
        """Tokens that prompt and output may have together, at most the model's positions."""
        limit, asked = self.model_config.rotary_config.max_position, self.max_seq_len_override
        if asked is not None and asked > limit:
            raise ValueError(
                f"max_seq_len_override is {asked}, but the model has {limit} positions"
            )
        return limit if asked is None else asked
