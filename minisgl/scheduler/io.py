"""How requests reach the scheduler and results leave it: offline by hooks, online by queues."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from minisgl.message import (
    BaseBackendMsg,
    BaseTokenizerMsg,
    BatchBackendMsg,
    BatchTokenizerMsg,
    MessageError,
)
from minisgl.utils import ZmqPubQueue, ZmqPullQueue, ZmqPushQueue, ZmqSubQueue, init_logger
from minisgl.utils.mp import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import torch

    from minisgl.message import DetokenizeMsg, StatsMsg

    from .config import SchedulerConfig

    Receive = Callable[["SchedulerIOMixin", bool], list[BaseBackendMsg]]
    Send = Callable[["SchedulerIOMixin", list[DetokenizeMsg]], None]

logger = init_logger(__name__)

STATS_INTERVAL = 0.5
"""Seconds between two reports of how much there is to do, while there is."""


class SchedulerIOMixin:
    """The scheduler's way to the outside, chosen once by its settings.

    Offline, in one process: two hooks that a subclass fills. Online, rank 0 alone talks to the
    tokenizers; in each step it publishes what came in as one message, so that the other ranks,
    which do the same work, take the same requests in the same step.
    Raises ValueError when queues are needed and config.socket_folder is not set.
    """

    def __init__(
        self, config: SchedulerConfig, tp_cpu_group: torch.distributed.ProcessGroup | None = None
    ) -> None:
        self.tp_cpu_group = tp_cpu_group
        self._queues: list[ZmqPullQueue[Any] | ZmqPushQueue[Any] | ZmqPubQueue[Any]] = []
        self._last_report = 0.0
        # Functions, not methods bound to self: one would keep a dropped scheduler, and what it has
        # on the device, until the garbage collector comes by. Hooks are looked up in each call.
        self._receive_msg: Receive = lambda io, blocking: io.offline_receive_msg(blocking)
        self._send_result: Send = lambda io, reply: io.offline_send_result(reply)
        if config.offline_mode:
            return
        if not config.socket_folder:
            raise ValueError("a scheduler that isn't offline needs socket_folder, a private folder")
        if config.tp_info.is_primary():
            self._connect_rank0(config)
        else:
            self._connect_rank1(config)

    def _connect_rank0(self, config: SchedulerConfig) -> None:
        self._inbox = ZmqPullQueue(config.zmq_backend_addr, True, BaseBackendMsg.decoder)
        self._outbox = ZmqPushQueue(config.zmq_detokenizer_addr, False, BaseTokenizerMsg.encoder)
        self._queues = [self._inbox, self._outbox]
        self._receive_msg = SchedulerIOMixin._recv_msg_single_rank
        self._send_result = SchedulerIOMixin._reply_tokenizer_rank0
        if config.tp_info.size > 1:
            self._broadcast = ZmqPubQueue(
                config.zmq_scheduler_broadcast_addr,
                True,
                BaseBackendMsg.encoder,
                subscribers=config.tp_info.size - 1,
                timeout=config.distributed_timeout,
            )
            self._queues.append(self._broadcast)
            self._receive_msg = SchedulerIOMixin._recv_msg_multi_rank0

    def _connect_rank1(self, config: SchedulerConfig) -> None:
        address = config.zmq_scheduler_broadcast_addr
        self._inbox = ZmqSubQueue(address, False, BaseBackendMsg.decoder)
        self._queues = [self._inbox]
        self._receive_msg = SchedulerIOMixin._recv_msg_multi_rank1
        self._send_result = SchedulerIOMixin._reply_tokenizer_rank1

    def run_when_idle(self) -> None:
        """Called, on every rank, before waiting for a message with nothing else to do."""
        raise NotImplementedError("a scheduler says what it does when it is idle")

    def stats(self) -> StatsMsg:
        """Return how much there is to do and how full the pool is; asked for on rank 0, online."""
        raise NotImplementedError("a scheduler says how much it has to do")

    def offline_receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        """Return what came in; with blocking there is no other work, so there is time to wait."""
        raise NotImplementedError("a subclass says where messages come from")

    def offline_send_result(self, reply: list[DetokenizeMsg]) -> None:
        """Take the tokens of one step."""
        raise NotImplementedError("a subclass says where results go")

    def receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        """Return the messages that have come in, one by one; with blocking, wait for a frame."""
        if blocking:
            self.run_when_idle()
        return self._receive_msg(self, blocking)

    def send_result(self, reply: list[DetokenizeMsg]) -> None:
        """Send the tokens of one step."""
        self._send_result(self, reply)

    def sync_all_ranks(self) -> None:
        """Return once every rank has come here; at once when there is only one."""
        if self.tp_cpu_group is not None:
            self.tp_cpu_group.barrier().wait()

    def close_queues(self) -> None:
        """Close this end of each queue; nothing can come or go afterwards."""
        for queue in self._queues:
            queue.stop()
        self._queues = []

    def _recv_msg_single_rank(self, blocking: bool = False) -> list[BaseBackendMsg]:
        if blocking or time.monotonic() - self._last_report >= STATS_INTERVAL:
            self._last_report = time.monotonic()
            self._outbox.put(self.stats())
        msgs: list[BaseBackendMsg] = []
        while blocking or not self._inbox.empty():
            raw, blocking = self._inbox.get_raw(), False
            try:
                msgs += _flat(self._inbox.decode(raw))
            except (FrameError, MessageError) as error:  # whose text may quote a request
                logger.error("%d bytes are no message: %s", len(raw), type(error).__name__)
        return msgs

    def _recv_msg_multi_rank0(self, blocking: bool = False) -> list[BaseBackendMsg]:
        msgs = self._recv_msg_single_rank(blocking)
        self._broadcast.put(BatchBackendMsg(msgs))  # also when empty: one message a step
        return msgs

    def _recv_msg_multi_rank1(self, blocking: bool = False) -> list[BaseBackendMsg]:
        msg = self._inbox.get()
        assert isinstance(msg, BatchBackendMsg), "a broadcast is a batch"
        return msg.data

    def _reply_tokenizer_rank0(self, reply: list[DetokenizeMsg]) -> None:
        self._outbox.put(reply[0] if len(reply) == 1 else BatchTokenizerMsg(list(reply)))

    def _reply_tokenizer_rank1(self, reply: list[DetokenizeMsg]) -> None:
        """Rank 0 has the same tokens and sends them."""


def _flat(msg: BaseBackendMsg) -> Iterator[BaseBackendMsg]:
    """Yield the messages of a batch, and of the batches in it, in order.

    A batch that is as deep as a decoder can bear must not become one deeper for the other ranks.
    """
    stack = [msg]
    while stack:
        msg = stack.pop()
        if isinstance(msg, BatchBackendMsg):
            stack += reversed(msg.data)
        else:
            yield msg
