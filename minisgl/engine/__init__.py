"""The part that computes: it runs batches that others put together."""

from .config import EngineConfig
from .engine import Engine, ForwardOutput
from .sample import BatchSamplingArgs, Logprobs

__all__ = ["BatchSamplingArgs", "Engine", "EngineConfig", "ForwardOutput", "Logprobs"]
