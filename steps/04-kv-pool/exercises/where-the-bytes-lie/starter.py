"""Your predictions of where the pool's bytes lie; replace the two bodies."""

from __future__ import annotations


def smallest(pool: dict[str, int], lengths: list[int]) -> int:
    """Bytes of the smallest pool that holds requests of these lengths at once."""
    raise NotImplementedError("exercise 04: predict the bytes of the smallest pool")


def written(
    pool: dict[str, int], kind: str, pages: list[int], cached: int, total: int
) -> list[tuple[int, int]]:
    """First byte and length of each piece of memory that a pass writes keys or values to."""
    raise NotImplementedError("exercise 04: predict the bytes that a pass writes")
