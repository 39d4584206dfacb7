"""How two ranks receive, with a message less in each step in which nothing comes."""

from __future__ import annotations

from minisgl.message import BaseBackendMsg, BatchBackendMsg
from minisgl.scheduler import Scheduler


def first_apart(order: str) -> int | None:
    """The first step of which the two ranks' batches differ, as the functions below stand.

    order: "0" and "1" are a step of that rank, "B" is the moment at which request B arrives.
    None: they never differ.
    """
    raise NotImplementedError("exercise 14: predict the first step that differs")


def broadcasts(new: int, overlap: bool, bad: int) -> int:
    """How many messages rank 0 sends with the chapter's functions.

    For one request of `new` tokens, and then `bad` frames that come one by one while all is idle.
    """
    raise NotImplementedError("exercise 14: predict the number of messages")


def receive_rank0(io: Scheduler, blocking: bool = False) -> list[BaseBackendMsg]:
    """Take what has come in, and tell the other rank."""
    msgs = io._recv_msg_single_rank(blocking)
    if msgs:
        io._broadcast.put(BatchBackendMsg(msgs))
    return msgs


def receive_rank1(io: Scheduler, blocking: bool = False) -> list[BaseBackendMsg]:
    """Take what rank 0 has told."""
    if not blocking and io._inbox.empty():
        return []
    return io._inbox.get().data
