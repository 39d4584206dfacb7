"""A chat in this terminal."""

from __future__ import annotations


async def shell() -> None:
    """Chat until the user leaves."""
    raise NotImplementedError
