"""Believes that the CPU launches as far ahead as it can, and only reads what is done."""

from __future__ import annotations


def rows_for_nobody(max_tokens: int, end_at: int | None) -> int:
    """How many rows overlap computes for a request whose token is dropped."""
    return int(end_at is not None and end_at < max_tokens)


def first_flag(max_tokens: int, overlap: bool) -> int:
    """Which token is the first to be called the last, if can_decode is asked."""
    return max(1, max_tokens - 1) if overlap else max_tokens


def device_idle(batches: list[dict[str, int]], overlap: bool) -> int:
    """Microseconds in which the device waits, between its first batch and its last.

    Each batch has "schedule", "launch", "device" and "read", in microseconds.
    """
    idle, read_before, ahead = 0, 0, 0
    for last, following in zip(batches, batches[1:], strict=False):
        launching = following["schedule"] + following["launch"]
        if overlap:  # both lanes set out at the same time: behind launch and pass of the last two
            ahead += last["device"] - read_before - launching
            idle, ahead = idle + max(0, -ahead), max(0, ahead)
        else:
            idle += last["read"] + launching
        read_before = last["read"]
    return idle
