"""What the engine's parts tell each other."""

from .backend import AbortBackendMsg, BaseBackendMsg, UserMsg
from .tokenizer import BaseTokenizerMsg, DetokenizeMsg

__all__ = ["AbortBackendMsg", "BaseBackendMsg", "BaseTokenizerMsg", "DetokenizeMsg", "UserMsg"]
