"""Helpers that know nothing of scheduling."""

from .logger import init_logger
from .misc import UNSET, Unset, align_ceil, align_down, call_if_main, div_ceil, div_even
from .registry import Registry
from .torch_utils import nvtx_annotate, torch_dtype

__all__ = [
    "UNSET",
    "Registry",
    "Unset",
    "align_ceil",
    "align_down",
    "call_if_main",
    "div_ceil",
    "div_even",
    "init_logger",
    "nvtx_annotate",
    "torch_dtype",
]
