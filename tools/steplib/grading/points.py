"""How many points each part is worth."""

from __future__ import annotations

PARITY, MAIN, TESTS = 40.0, 10.0, 50.0
"""Of the 100 points of a chapter."""

EXERCISE = 20.0
"""Each; all or nothing, so that a guess and a starter earn none."""

_STEP = 0.25


def shares(whole: float, count: int) -> list[float]:
    """`whole` in `count` parts of quarter points, as even as they can be; they add up to it."""
    if count == 0:
        return []
    least, over = divmod(round(whole / _STEP), count)
    return [(least + (i < over)) * _STEP for i in range(count)]
