"""Believes that every request that ends has one step more on its way."""

from __future__ import annotations


def rows_for_nobody(max_tokens: int, end_at: int | None) -> int:
    """How many rows overlap computes for a request whose token is dropped."""
    return 1


def first_flag(max_tokens: int, overlap: bool) -> int:
    """Which token is the first to be called the last, if can_decode is asked."""
    return max(1, max_tokens - 1) if overlap else max_tokens


def device_idle(batches: list[dict[str, int]], overlap: bool) -> int:
    """Microseconds in which the device waits, between its first batch and its last.

    Each batch has "schedule", "launch", "device" and "read", in microseconds.
    """
    idle, read_before = 0, 0
    for last, following in zip(batches, batches[1:], strict=False):
        launching = following["schedule"] + following["launch"]
        if overlap:  # both lanes set out at the same time: behind launch and pass of the last two
            idle += max(0, read_before + launching - last["device"])
        else:
            idle += last["read"] + launching
        read_before = last["read"]
    return idle
