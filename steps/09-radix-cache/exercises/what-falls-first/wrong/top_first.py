"""Believes that of one path the beginning goes first."""

from __future__ import annotations

Nodes = dict[str, tuple[str | None, int]]
Events = list[tuple[str, str]]

GOES: str | None = "cd"
"""The match split abcd and used ab alone: cd is older than k, and goes as a whole."""


def way_up(nodes: Nodes, name: str) -> list[str]:
    """The node, its parent, and so on up to the root, which is left out."""
    found: list[str] = []
    at: str | None = name
    while at is not None:
        found.append(at)
        at = nodes[at][0]
    return found


def order(nodes: Nodes, events: Events) -> list[str]:
    """The nodes that may be evicted, the first to go first."""
    used, locks = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for tick, (kind, name) in enumerate(events):
        for node in way_up(nodes, name):
            locks[node] += {"lock": 1, "unlock": -1}.get(kind, 0)
            if kind != "lock":
                used[node] = tick
    free = [name for name in nodes if locks[name] == 0]
    return sorted(free, key=lambda name: (used[name], len(way_up(nodes, name))))


def dropped(nodes: Nodes, events: Events, size: int) -> list[str]:
    """The nodes that an eviction of at least size tokens drops, in order; [] if it is refused."""
    left, gone = size, []
    for name in order(nodes, events):
        if left <= 0:
            break
        gone.append(name)
        left -= nodes[name][1]
    return gone if left <= 0 else []
