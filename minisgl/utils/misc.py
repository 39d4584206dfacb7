"""Small helpers: whole-number arithmetic, run-as-script, and a value that means "not set"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_if_main(
    name: str = "__main__", discard: bool | None = None
) -> Callable[[Callable[[], Any]], Any]:
    """Return a decorator that calls its function at once when name says that this is a script.

    The decorated name is the function itself, or None with discard (default: when it was called).
    """
    is_main = name == "__main__"

    def decorate(fn: Callable[[], Any]) -> Any:
        if is_main:
            fn()
        return None if (is_main if discard is None else discard) else fn

    return decorate


def div_even(a: int, b: int, allow_replicate: bool = False) -> int:
    """Return a / b, which must be whole; with allow_replicate, b parts may also share one of a."""
    if allow_replicate and a < b:
        assert b % a == 0, f"{b} ranks can't share {a} parts evenly"
        return 1
    assert a % b == 0, f"{a} can't be divided evenly by {b}"
    return a // b


def div_ceil(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


def align_ceil(a: int, b: int) -> int:
    """Return the smallest multiple of b that is at least a."""
    return div_ceil(a, b) * b


def align_down(a: int, b: int) -> int:
    """Return the largest multiple of b that is at most a."""
    return a // b * b


class Unset:
    """The type of UNSET, for arguments to which None is a value."""


UNSET = Unset()
