"""The engine as a library."""

from .llm import LLM

__all__ = ["LLM"]
