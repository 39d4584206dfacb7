"""Settings that come from environment variables, read once and typed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
MINISGL_ENV_PREFIX = "MINISGL_"


class BaseEnv:
    """What settings share: _init(name), by which they read the variable that is called name."""

    def _init(self, name: str) -> None:
        raise NotImplementedError


class EnvVar(BaseEnv, Generic[T]):
    """One variable: .value is default_value, or fn(text) when the variable is set.

    Reading raises ValueError, with name, text and default, for a text that fn can't read.
    """

    def __init__(self, default_value: T, fn: Callable[[str], T]) -> None:
        self.value = default_value
        self.fn = fn

    def _init(self, name: str) -> None:
        text = os.getenv(name)
        if text is None:
            return
        try:
            self.value = self.fn(text)
        except (ValueError, KeyError):
            raise ValueError(
                f"environment variable {name} has the value {text!r}, which can't be read; "
                f"its default is {self.value!r}"
            ) from None

    def __bool__(self) -> bool:
        return bool(self.value)

    def __str__(self) -> str:
        return str(self.value)


def _TO_BOOL(text: str) -> bool:
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[
        text.strip().lower()
    ]


def _PARSE_MEM_BYTES(mem: str) -> int:
    """Return the bytes that a size such as 512, 64K, 32MB or 1.5G names."""
    digits = mem.strip().upper().removesuffix("B")
    shift = {"K": 10, "M": 20, "G": 30}.get(digits[-1:], 0)
    return int(float(digits[:-1] if shift else digits) * (1 << shift))


EnvBool = partial(EnvVar[bool], fn=_TO_BOOL)
EnvOption = partial(EnvVar[bool | None], fn=_TO_BOOL)
EnvMem = partial(EnvVar[int], fn=_PARSE_MEM_BYTES)
EnvInt = partial(EnvVar[int], fn=int)
EnvFloat = partial(EnvVar[float], fn=float)


class EnvClassSingleton:
    """All settings of the engine, each read from MINISGL_ and its name; ENV is the one instance."""

    _instance: EnvClassSingleton | None = None

    DISABLE_OVERLAP_SCHEDULING = EnvBool(False)
    FLASHINFER_USE_TENSOR_CORES = EnvOption(None)
    LOG_LEVEL = EnvVar("INFO", str.upper)
    PYNCCL_MAX_BUFFER_SIZE = EnvMem(1 << 30)
    SHELL_MAX_TOKENS = EnvInt(2048)
    SHELL_TEMPERATURE = EnvFloat(0.6)
    SHELL_TOP_K = EnvInt(-1)
    SHELL_TOP_P = EnvFloat(1.0)

    def __new__(cls) -> EnvClassSingleton:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __init__(self) -> None:
        for name, setting in vars(type(self)).items():
            if isinstance(setting, BaseEnv):
                setting._init(MINISGL_ENV_PREFIX + name)


ENV = EnvClassSingleton()
