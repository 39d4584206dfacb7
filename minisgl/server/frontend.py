"""The API server's side of the queues: who waits for which replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minisgl.message import (
    AbortMsg,
    BaseFrontendMsg,
    BaseTokenizerMsg,
    BatchFrontendMsg,
    MessageError,
    StatsReply,
    TokenizeMsg,
    UserReply,
)
from minisgl.utils import ZmqAsyncPullQueue, ZmqAsyncPushQueue, init_logger
from minisgl.utils.mp import FrameError

from .answer import Answer, Piece
from .errors import ApiError
from .metrics import Metrics, RequestTimer

if TYPE_CHECKING:
    from minisgl.core import SamplingParams

    from .args import ServerArgs

logger = init_logger(__name__)

Prompt = str | list[dict[str, str]] | list[int]


def _unwrap_msg(msg: BaseFrontendMsg) -> list[UserReply | StatsReply]:
    if isinstance(msg, BatchFrontendMsg):
        return [reply for inner in msg.data for reply in _unwrap_msg(inner)]
    assert isinstance(msg, UserReply | StatsReply), f"a {type(msg).__name__} is no reply"
    return [msg]


@dataclass
class FrontendManager:
    """Numbers requests, sends them, and hands each reply to whoever waits for it.

    ack_map: what has come for each open request and was not taken yet; event_map: what wakes the
    one who waits for it. failure: why nothing is answered any more; None while all is well.
    send_detokenizer: for aborts, where the tokenizers keep nothing of a request; None where one
    process does both.
    """

    config: ServerArgs
    send_tokenizer: ZmqAsyncPushQueue[BaseTokenizerMsg]
    recv_tokenizer: ZmqAsyncPullQueue[BaseFrontendMsg]
    uid_counter: int = 0
    ack_map: dict[int, list[UserReply]] = field(default_factory=dict)
    event_map: dict[int, asyncio.Event] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    failure: str | None = None
    is_stopping: bool = False
    waiting: set[int] = field(default_factory=set)
    send_detokenizer: ZmqAsyncPushQueue[BaseTokenizerMsg] | None = None
    _has_failed: asyncio.Event = field(default_factory=asyncio.Event)

    def new_user(self, event: asyncio.Event | None = None) -> int:
        """Open a request and return its uid. event is set when a reply has come for it."""
        uid, self.uid_counter = self.uid_counter, self.uid_counter + 1
        self.ack_map[uid], self.event_map[uid] = [], event or asyncio.Event()
        self.waiting.add(uid)
        return uid

    def forget(self, uid: int) -> None:
        """Close a request: what still comes for it is dropped."""
        self.ack_map.pop(uid, None)
        self.event_map.pop(uid, None)
        self.waiting.discard(uid)

    async def listen(self) -> None:
        """Take replies for ever."""
        while True:
            try:
                msg = await self.recv_tokenizer.get()
            except (FrameError, MessageError) as error:
                logger.error("what came is no message: %s", type(error).__name__)
                continue
            for reply in _unwrap_msg(msg):
                if isinstance(reply, StatsReply):
                    self.metrics.take_stats(reply)
                elif (replies := self.ack_map.get(reply.uid)) is not None:
                    replies.append(reply)
                    self.waiting.discard(reply.uid)
                    self.event_map[reply.uid].set()

    async def send_one(self, msg: BaseTokenizerMsg) -> None:
        """Send one message to a tokenizer; once the server has failed nobody may be there for it.

        It would wait for ever then, and whoever waits for an answer would not hear why.
        """
        if self.failure is not None:
            return
        is_abort = isinstance(msg, AbortMsg)
        queue = (self.send_detokenizer if is_abort else None) or self.send_tokenizer
        tasks = [
            asyncio.ensure_future(queue.put(msg)),
            asyncio.ensure_future(self._has_failed.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()  # raises what went wrong
        finally:
            for task in tasks:
                task.cancel()

    def take(self, uid: int) -> list[UserReply]:
        """Return what has come for an open request since the last call."""
        replies = self.ack_map[uid]
        if replies:
            self.ack_map[uid] = []
        return replies

    async def abort_user(self, uid: int) -> None:
        """Close a request before its end, here and wherever it is."""
        self.forget(uid)
        await self.send_one(AbortMsg(uid))

    def check_open(self, new_requests: int) -> None:
        """Raise ApiError when so many new requests can't be taken now."""
        if self.failure is not None:
            raise ApiError(503, self.failure, "server_error")
        if self.is_stopping:
            raise ApiError(503, "the server is shutting down", "server_error")
        limit = self.config.max_waiting
        if new_requests > limit:
            said = f"{new_requests} answers are asked for at once, but only {limit} may wait"
            raise ApiError(400, said, param="n")
        if len(self.waiting) + new_requests > limit:
            raise ApiError(
                429,
                f"{len(self.waiting)} requests are waiting already; try again later",
                "rate_limit_error",
                code="rate_limit_exceeded",
                headers={"Retry-After": "1"},
            )

    def fail(self, cause: str) -> None:
        """From now on answer nothing: whoever waits gets an error that says cause."""
        self.failure = self.failure or cause
        self._has_failed.set()
        for event in self.event_map.values():
            event.set()

    def shutdown(self) -> None:
        """Close the queues."""
        self.send_tokenizer.stop()
        if self.send_detokenizer is not None:
            self.send_detokenizer.stop()
        self.recv_tokenizer.stop()


class Choices:
    """All answers that one HTTP request asks for: n for each prompt, prompt by prompt.

    As an async context it sends the requests, and at its end aborts those that still run.
    answers: in order; each prompt's n answers stand together.
    """

    def __init__(
        self,
        state: FrontendManager,
        prompts: Sequence[Prompt],
        params: Sequence[SamplingParams],
        stops: list[str],
    ) -> None:
        self.state, self.prompts, self.params, self.stops = state, prompts, params, stops
        self.answers: list[Answer] = []
        self.timers: list[RequestTimer] = []
        self.open: dict[int, int] = {}  # uid -> index
        self.event = asyncio.Event()

    async def __aenter__(self) -> Choices:
        self.state.check_open(len(self.prompts) * len(self.params))
        requests = [(prompt, params) for prompt in self.prompts for params in self.params]
        self.answers = [Answer(self.stops) for _ in requests]
        self.timers = [self.state.metrics.timer() for _ in requests]
        self.open = {self.state.new_user(self.event): i for i in range(len(requests))}
        try:
            for uid, i in self.open.items():
                await self.state.send_one(TokenizeMsg(uid, *requests[i]))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: Any) -> None:
        outcome = "aborted" if self.state.failure is None else "failed"
        for uid in list(self.open):
            self._close(uid, outcome)
            await self.state.abort_user(uid)

    async def pieces(self) -> AsyncIterator[list[tuple[int, Piece]]]:
        """Yield what the replies that have come add to the answers, as (index, piece).

        Raises ApiError when a request is refused or fails, or when no answer begins in time.
        """
        limit: float | None = self.state.config.first_token_timeout
        while self.open:
            try:
                async with asyncio.timeout(limit):
                    await self.event.wait()
            except TimeoutError:
                said = f"no answer has begun within {limit:g} s; try again later"
                raise ApiError(503, said, "server_error", headers={"Retry-After": "1"}) from None
            limit = None
            self.event.clear()
            if self.state.failure is not None:
                raise ApiError(503, self.state.failure, "server_error")
            if new := [pair for uid in list(self.open) for pair in await self._take(uid)]:
                yield new

    async def _take(self, uid: int) -> list[tuple[int, Piece]]:
        """Return what a request's new replies add to its answer; close it at the answer's end."""
        index, new = self.open[uid], []
        answer = self.answers[index]
        for reply in self.state.take(uid):
            if reply.error is not None:
                if self.timers[index].is_waiting:
                    self._close(uid, "refused")
                    raise ApiError(400, reply.error)
                self._close(uid, "failed")
                raise ApiError(500, reply.error, "server_error")
            self.timers[index].take(reply)
            new.append((index, answer.push(reply)))
            if reply.finished:
                self._close(uid, answer.finish_reason or "length")
            elif answer.is_stopped:
                self._close(uid, "stop")
                await self.state.abort_user(uid)
                break
        return new

    def _close(self, uid: int, outcome: str) -> None:
        self.timers[self.open.pop(uid)].end(outcome)
        self.state.forget(uid)
