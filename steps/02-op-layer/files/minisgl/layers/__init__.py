"""The ops that models are made of."""

from .activation import gelu_and_mul, silu_and_mul
from .base import BaseOP, OPList, StateLessOP
from .embedding import ParallelLMHead, VocabParallelEmbedding
from .linear import (
    LinearColParallelMerged,
    LinearOProj,
    LinearQKVMerged,
    LinearReplicated,
    LinearRowParallel,
)
from .norm import RMSNorm, RMSNormFused
from .rotary import get_rope, set_rope_device

__all__ = [
    "BaseOP",
    "LinearColParallelMerged",
    "LinearOProj",
    "LinearQKVMerged",
    "LinearReplicated",
    "LinearRowParallel",
    "OPList",
    "ParallelLMHead",
    "RMSNorm",
    "RMSNormFused",
    "StateLessOP",
    "VocabParallelEmbedding",
    "gelu_and_mul",
    "get_rope",
    "set_rope_device",
    "silu_and_mul",
]
