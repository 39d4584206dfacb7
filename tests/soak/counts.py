"""What a soak has met, and what it must have met to mean anything."""

from __future__ import annotations

from collections import Counter

EVENTS = ("message", "prompt part launched", "token launched", "finish", "eviction")
"""What counts as an event. A message counts when it changes something: a new request, taken or
refused, and an abort of a request that has not ended. A step in which nothing happens is none."""

ABORTS = (
    "waiting",
    "chunk in flight",
    "between chunks",
    "prefill in flight",
    "decode in flight",
    "between decodes",
    "last token in flight",
    "ended, still in flight",
    "ended",
    "unknown",
    "aborted before",
)
"""Where a request is when its abort arrives."""

CHUNKS = (
    "whole prompt",
    "whole prompt, begun in the cache",
    "first chunk",
    "first chunk, begun in the cache",
    "middle chunk",
    "last chunk",
    "chunk behind other prompts",
    "chunk that ends inside a page",
)
"""What a prefill batch can hold of a prompt."""

FINISHES = ("at an end id", "at its length", "cut at the longest length")

GOALS = {
    "finish": 10_000,
    "eviction": 1_000,
    "refused": 1_000,
    **{f"abort: {state}": 100 for state in ABORTS},
    **{f"prefill: {kind}": 100 for kind in CHUNKS},
    **{f"finish: {kind}": 100 for kind in FINISHES},
}
"""The least of each in a million events; and one request in ten is aborted before it ends."""


def events(counts: Counter[str]) -> int:
    """Events so far."""
    return sum(counts[kind] for kind in EVENTS)


def missed(counts: Counter[str], wanted: int) -> list[str]:
    """The goals that were not reached, each as a sentence; for fewer events they are smaller."""
    goals = {name: goal * wanted // 1_000_000 for name, goal in GOALS.items()}
    goals["aborted"] = counts["request"] // 10
    short = [
        f"{name}: {counts[name]}, at least {goal} are needed"
        for name, goal in goals.items()
        if counts[name] < goal
    ]
    return short + [f"{events(counts)} events of {wanted}"] * (events(counts) < wanted)
