"""Your predictions of what loading a checkpoint keeps in memory; replace the three bodies."""

from __future__ import annotations

from typing import Any


def merged_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Name and shape of each merged tensor of layer 0."""
    raise NotImplementedError("exercise 03: predict the merged shapes")


def own_bytes(config: dict[str, Any], stored: str, wanted: str) -> int:
    """Bytes of the loaded weights that are copies. stored, wanted: the file's dtype, the engine's.

    Both are one of "bfloat16", "float16" and "float32".
    """
    raise NotImplementedError("exercise 03: predict the bytes that are copied")


def most_waiting(read: list[tuple[str, int]]) -> int:
    """The most bytes that wait to be merged. read: name and bytes of each weight, in file order."""
    raise NotImplementedError("exercise 03: predict the bytes that wait")
