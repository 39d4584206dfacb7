"""The other ends of a scheduler's queues: what the tokenizers are to it, and several ranks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stub_engine import stub_config, stub_scheduler

PATIENCE_MS = 8_000
"""After this a receive raises, so that a message that never comes is an error and no hang."""

LAST = 2**40
"""The uid of what marks the end of all frames so far."""


class Outside:
    """Sends to a scheduler and hears from it. requests, replies: the two queues' other ends."""

    def __init__(self, folder: str) -> None:
        import zmq

        from minisgl.message import BaseBackendMsg, BaseTokenizerMsg
        from minisgl.utils import ZmqPullQueue, ZmqPushQueue

        zmq.Context.instance().setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        self.folder, self.closing = folder, [self]
        config = stub_config(socket_folder=folder)
        self.requests = ZmqPushQueue(config.zmq_backend_addr, False, BaseBackendMsg.encoder)
        self.replies = ZmqPullQueue(config.zmq_detokenizer_addr, True, BaseTokenizerMsg.decoder)

    def scheduler(self, overlap: bool = False, base: Any = None, **settings: Any) -> Any:
        """One rank; it is closed when the folder goes."""
        made = stub_scheduler(overlap, base, socket_folder=self.folder, **settings)
        self.closing.append(made)
        return made

    def ranks(self, size: int = 2, **settings: Any) -> list[Any]:
        """All ranks, rank 0 first."""
        return [self.scheduler(rank=rank, size=size, **settings) for rank in range(size)]

    def send(self, *messages: Any) -> None:
        """Send messages, or frames as they are."""
        for msg in messages:
            if isinstance(msg, bytes):
                self.requests.socket.send(msg)
            else:
                self.requests.put(msg)

    def frames(self, scheduler: Any) -> list[list[Any]]:
        """All that it has sent so far, frame by frame, each as a list of its messages."""
        from minisgl.message import DetokenizeMsg

        scheduler.send_result([DetokenizeMsg(LAST, 0, True)])
        del scheduler.replies[LAST]
        got: list[list[Any]] = []
        while not got or [getattr(msg, "uid", None) for msg in got[-1]] != [LAST]:
            got.append(self.frame())
        return got[:-1]

    def frame(self) -> list[Any]:
        """The messages of the next frame."""
        msg = self.replies.get()
        return msg.data if type(msg).__name__ == "BatchTokenizerMsg" else [msg]

    def close_queues(self) -> None:
        self.requests.stop()
        self.replies.stop()


@contextmanager
def outside() -> Iterator[Outside]:
    """The outside in a private folder, which goes at the end with all that was opened in it."""
    with tempfile.TemporaryDirectory() as folder:
        office = Outside(folder)
        try:
            yield office
        finally:
            for end in office.closing:
                end.close_queues()


def serve(*ranks: Any, limit: int = 5_000) -> None:
    """Step the ranks in turn, first of all into a message that has come or will, until idle."""
    for _ in range(limit):
        for rank in ranks:
            rank.step()
        if all(rank.is_idle for rank in ranks):
            return
    raise AssertionError(f"not idle after {limit} steps")


def serve_until(ranks: list[Any], uid: int, limit: int = 500) -> None:
    """Serve, however often there is nothing to do in between, until request uid has ended."""
    for _ in range(limit):
        serve(*ranks)
        if any(reply[1] for reply in ranks[0].replies.get(uid, [])):
            return
    raise AssertionError(f"request {uid} has not ended")


def kinds(frames: list[list[Any]]) -> list[list[str]]:
    """The types of the messages of each frame."""
    return [[type(msg).__name__ for msg in frame] for frame in frames]


def tokens_of(frames: list[list[Any]]) -> dict[int, list[list[Any]]]:
    """Of each request what the replies say: token and whether it is the last, and the error."""
    said: dict[int, list[list[Any]]] = {}
    for msg in (msg for frame in frames for msg in frame if hasattr(msg, "next_token")):
        error = [msg.error] * (msg.error is not None)
        said.setdefault(msg.uid, []).append([msg.next_token, msg.finished, *error])
    return said


def until(holds: Any, seconds: float = 10.0) -> bool:
    """Whether holds() becomes true in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
