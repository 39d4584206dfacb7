"""Your predictions of what the cache evicts; replace the constant and the two bodies."""

from __future__ import annotations

Nodes = dict[str, tuple[str | None, int]]
Events = list[tuple[str, str]]

GOES: str | None = None
"""The tokens that go after insert abcd, insert k, match ab, evict 1; a string of letters."""


def order(nodes: Nodes, events: Events) -> list[str]:
    """The nodes that may be evicted, the first to go first."""
    raise NotImplementedError("exercise 09: predict the order of eviction")


def dropped(nodes: Nodes, events: Events, size: int) -> list[str]:
    """The nodes that an eviction of at least size tokens drops, in order; [] if it is refused."""
    raise NotImplementedError("exercise 09: predict what an eviction drops")
