"""What the engine's processes tell each other."""

from .backend import AbortBackendMsg, BaseBackendMsg, BatchBackendMsg, ExitMsg, UserMsg
from .frontend import BaseFrontendMsg, BatchFrontendMsg, StatsReply, TokenLogprob, UserReply
from .tokenizer import (
    AbortMsg,
    BaseTokenizerMsg,
    BatchTokenizerMsg,
    DetokenizeMsg,
    StatsMsg,
    TokenizeMsg,
)
from .utils import MessageError

__all__ = [
    "AbortBackendMsg",
    "AbortMsg",
    "BaseBackendMsg",
    "BaseFrontendMsg",
    "BaseTokenizerMsg",
    "BatchBackendMsg",
    "BatchFrontendMsg",
    "BatchTokenizerMsg",
    "DetokenizeMsg",
    "ExitMsg",
    "MessageError",
    "StatsMsg",
    "StatsReply",
    "TokenLogprob",
    "TokenizeMsg",
    "UserMsg",
    "UserReply",
]
