"""Helpers that know nothing of scheduling."""

from .hf import cached_load_hf_config, download_hf_weight, load_tokenizer
from .logger import init_logger
from .misc import UNSET, Unset, align_ceil, align_down, call_if_main, div_ceil, div_even
from .mp import (
    ZmqAsyncPullQueue,
    ZmqAsyncPushQueue,
    ZmqPubQueue,
    ZmqPullQueue,
    ZmqPushQueue,
    ZmqSubQueue,
)
from .registry import Registry
from .torch_utils import nvtx_annotate, torch_dtype

__all__ = [
    "UNSET",
    "Registry",
    "Unset",
    "ZmqAsyncPullQueue",
    "ZmqAsyncPushQueue",
    "ZmqPubQueue",
    "ZmqPullQueue",
    "ZmqPushQueue",
    "ZmqSubQueue",
    "align_ceil",
    "align_down",
    "cached_load_hf_config",
    "call_if_main",
    "div_ceil",
    "div_even",
    "download_hf_weight",
    "init_logger",
    "load_tokenizer",
    "nvtx_annotate",
    "torch_dtype",
]
