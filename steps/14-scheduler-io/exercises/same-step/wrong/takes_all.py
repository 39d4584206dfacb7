"""Waits for a message, and takes all the others that are there too."""

from __future__ import annotations

from minisgl.message import BaseBackendMsg, BatchBackendMsg
from minisgl.scheduler import Scheduler


def first_apart(order: str) -> int | None:
    """The first step of which the two ranks' batches differ, as the starter's functions stand.

    order: "0" and "1" are a step of that rank, "B" is the moment at which request B arrives.
    None: they never differ.
    """
    arrived = order.index("B")
    sent = order.index("0", arrived)  # the step in which rank 0 takes it
    taken = [1 + order[:arrived].count("0"), 1 + order[:sent].count("1")]
    return None if taken[0] == taken[1] else min(taken)


def broadcasts(new: int, overlap: bool, bad: int) -> int:
    """How many messages rank 0 sends with the chapter's functions.

    For one request of `new` tokens, and then `bad` frames that come one by one while all is idle.
    """
    return new + overlap + bad


def receive_rank0(io: Scheduler, blocking: bool = False) -> list[BaseBackendMsg]:
    """Take what has come in, and tell the other rank."""
    msgs = io._recv_msg_single_rank(blocking)
    io._broadcast.put(BatchBackendMsg(msgs))
    return msgs


def receive_rank1(io: Scheduler, blocking: bool = False) -> list[BaseBackendMsg]:
    """Take what rank 0 has told."""
    msgs = io._inbox.get().data
    while not io._inbox.empty():
        msgs += io._inbox.get().data
    return msgs
