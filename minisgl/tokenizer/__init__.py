"""Text into tokens, and tokens into text, in a process of its own."""

from .server import tokenize_worker

__all__ = ["tokenize_worker"]
