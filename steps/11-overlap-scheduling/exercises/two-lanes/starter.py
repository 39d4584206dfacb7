"""Your predictions of two lanes, the scheduler's and the device's; replace the three bodies."""

from __future__ import annotations


def rows_for_nobody(max_tokens: int, end_at: int | None) -> int:
    """How many rows overlap computes for a request whose token is dropped."""
    raise NotImplementedError("exercise 11: predict the rows whose token is dropped")


def first_flag(max_tokens: int, overlap: bool) -> int:
    """Which token is the first to be called the last, if can_decode is asked."""
    raise NotImplementedError("exercise 11: predict which token carries the flag")


def device_idle(batches: list[dict[str, int]], overlap: bool) -> int:
    """Microseconds in which the device waits, between its first batch and its last.

    Each batch has "schedule", "launch", "device" and "read", in microseconds.
    """
    raise NotImplementedError("exercise 11: predict how long the device waits")
