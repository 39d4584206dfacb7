"""What test pairs share. A pair is one behavior, looked at from both sides of a process boundary:

    def probe_pool_starts_empty(seed):          # runs beside the code under test
        from minisgl.kvcache import Pool        # imports minisgl inside, returns plain data
        return Pool(4).used

    def judge_pool_starts_empty(seed, got):     # runs in the tool, never imports minisgl
        equal(got, 0, "pages in use")

Plain data: numbers, strings, booleans, None, lists and dicts with string keys. Both sides get the
same seed, so inputs can be drawn again. A probe that can't run raises unittest.SkipTest(reason).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from unittest import SkipTest

import numpy as np

Probe = TypeVar("Probe", bound=Callable[..., Any])

comparisons = 0
"""How many comparisons were made so far; a judge that makes none fails."""


class Mismatch(AssertionError):
    """What a judge raises: `what` was wrong, with the two values to show."""

    def __init__(self, what: str, expected: object, got: object) -> None:
        super().__init__(f"{what}: expected {shown(expected)}, got {shown(got)}")
        self.what, self.expected, self.got = what, expected, got


def equal(got: object, want: object, what: str) -> None:
    """Exactly equal. Tuples count as lists; True is not 1; the first difference is named."""
    _compare(got, want, what, _same)


def close(got: object, want: object, atol: float, what: str, rtol: float = 0.0) -> None:
    """Numbers within atol + rtol * |want|, at any depth of lists and dicts; the rest is equal."""

    def near(a: object, b: object) -> bool:
        if not (_is_number(a) and _is_number(b)):
            return _same(a, b)
        x, y = float(a), float(b)  # type: ignore[arg-type]
        if math.isnan(y) or math.isinf(y) or math.isnan(x) or math.isinf(x):
            return x == y or (math.isnan(x) and math.isnan(y))
        return abs(x - y) <= atol + rtol * abs(y)

    _compare(got, want, what, near)


def truth(holds: bool, what: str, got: object = None) -> None:
    """`what` holds. For what is neither equal nor close, such as an order or a bound."""
    _count()
    if not holds:
        raise Mismatch(what, _Words("something else"), got)


class _Words(str):
    """Shown as it is, since it is no value."""

    def __repr__(self) -> str:
        return str(self)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _same(a: object, b: object) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def shown(value: object, limit: int = 300) -> str:
    """`value` as text, cut where it gets too long to read."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _count() -> None:
    global comparisons
    comparisons += 1


def _compare(got: Any, want: Any, what: str, same: Callable[[object, object], bool]) -> None:
    _count()
    got, want = _plain(got), _plain(want)
    if isinstance(want, list) and isinstance(got, list):
        for i, (a, b) in enumerate(zip(got, want, strict=False)):
            _compare(a, b, f"{what}[{i}]", same)
        if len(got) != len(want):
            raise Mismatch(f"length of {what}", len(want), len(got))
    elif isinstance(want, dict) and isinstance(got, dict):
        if sorted(got) != sorted(want):
            raise Mismatch(f"keys of {what}", sorted(want), sorted(got))
        for key in want:
            _compare(got[key], want[key], f"{what}[{key!r}]", same)
    elif not same(got, want):
        raise Mismatch(what, want, got)


def _plain(x: Any) -> Any:
    if hasattr(x, "tolist"):
        x = x.tolist()
    return list(x) if isinstance(x, tuple) else x


def error_of(action: Callable[[], object]) -> dict[str, str] | None:
    """The kind and message of what `action` raises, as plain data; None when it raises nothing."""
    try:
        action()
    except Exception as error:
        return {"kind": type(error).__name__, "message": str(error)}
    return None


def refused(got: Any, what: str, *words: str, kind: str | None = None) -> None:
    """`got` comes from error_of: an error was raised, and its message holds each of `words`."""
    _count()
    if got is None:
        raise Mismatch(what, "an error", "no error")
    if kind is not None:
        equal(got["kind"], kind, f"kind of error for {what}")
    for word in words:
        if word not in got["message"]:
            raise Mismatch(what, f"an error that names {word!r}", got["message"])


def draw(seed: int, *shape: int) -> np.ndarray:
    """Standard normal float32 numbers, the same on both sides and on every machine."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def public_bug(*ids: str) -> Callable[[Probe], Probe]:
    """Mark a probe: it covers these rows of the list of public faults."""

    def mark(probe: Probe) -> Probe:
        probe.public_bugs = (*getattr(probe, "public_bugs", ()), *ids)  # type: ignore[attr-defined]
        return probe

    return mark


def checkpoint(name: str) -> str:
    """The folder of a checkpoint; a probe that needs one that isn't there is skipped."""
    models = os.environ.get("MINISGL_MODELS") or Path(__file__).resolve().parents[1] / "models"
    folder = Path(models) / name
    if not (folder / "config.json").is_file():
        raise SkipTest(f"checkpoint {name} isn't there (python tools/steps.py models make)")
    return str(folder)
