"""Frames of every kind at each process: what is no message is dropped, the next one is taken."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_message_properties import BACKEND, FRONTEND, TOKENIZER, VALUES

from minisgl.core import SamplingParams
from minisgl.message import (
    AbortBackendMsg,
    BaseBackendMsg,
    BaseFrontendMsg,
    BaseTokenizerMsg,
    BatchBackendMsg,
    BatchFrontendMsg,
    TokenizeMsg,
    UserMsg,
    UserReply,
)
from minisgl.scheduler.io import SchedulerIOMixin
from minisgl.server.frontend import FrontendManager
from minisgl.tokenizer import server as tokenizer
from minisgl.utils import ZmqAsyncPullQueue, ZmqPullQueue
from minisgl.utils.mp import _pack

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fakes"))
from stub_frontend import Tokenizers, run, stub_args  # noqa: E402

MODEL = Path(os.environ.get("MINISGL_MODELS") or ROOT / "models") / "tiny-qwen3"


class Frames:
    """A socket on which these frames come in, and then none."""

    def __init__(self, frames: list[bytes]) -> None:
        self.left = list(frames)

    def recv(self) -> bytes:
        return self.left.pop(0)

    def poll(self, timeout: int) -> bool:
        return bool(self.left)


class AsyncFrames(Frames):
    async def recv(self) -> bytes:  # type: ignore[override]
        if not self.left:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return super().recv()


def _queue(kind: type, socket: Frames, decoder: Callable[..., Any]) -> Any:
    """A receiving queue on a socket that is none."""
    queue = object.__new__(kind)
    queue.socket, queue.decoder = socket, decoder
    return queue


@st.composite
def _frame(draw: Any, base: Any, messages: Any) -> bytes:
    """A message as a frame: whole, cut short, or with bytes changed; or a frame of anything."""
    kind = draw(st.sampled_from(["whole", "cut", "changed", "bytes", "map"]))
    if kind == "bytes":
        return draw(st.binary(max_size=60))
    if kind == "map":
        return _pack({"a": draw(VALUES)} | {"__type__": draw(st.text(max_size=4))})
    raw = bytearray(_pack(base.encoder(draw(messages))))
    if kind == "cut":
        return bytes(raw[: draw(st.integers(0, len(raw) - 1))])
    for _ in range(draw(st.integers(1, 4)) if kind == "changed" else 0):
        raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
    return bytes(raw)


def _frames(base: Any, messages: Any) -> Any:
    return st.lists(_frame(base, messages), max_size=6)


def _deep(batch: bytes) -> bytes:
    """A batch that holds a batch, and so on, deeper than any decoder can bear."""
    return (b"\x82\xa8__type__" + batch + b"\xa4data\x91") * 5000 + b"\xc0"


@given(_frames(BaseFrontendMsg, FRONTEND))
@settings(max_examples=300, deadline=None)
def test_the_server_takes_the_reply_that_comes_behind_them(frames: list[bytes]) -> None:
    good = UserReply(0, "the last", True)

    async def scene() -> None:
        last = [_deep(b"\xb0BatchFrontendMsg"), _pack(BaseFrontendMsg.encoder(good))]
        recv = _queue(ZmqAsyncPullQueue, AsyncFrames([*frames, *last]), BaseFrontendMsg.decoder)
        state = FrontendManager(stub_args(), Tokenizers(), recv)  # type: ignore[arg-type]
        uid = state.new_user()
        listener = asyncio.create_task(state.listen())
        while good not in state.ack_map[uid]:
            assert not listener.done(), listener.result()
            await asyncio.sleep(0)
        assert state.metrics.text()
        listener.cancel()

    run(scene())


@cache
def _worker() -> Any:
    return tokenizer._Worker(str(MODEL))


@pytest.mark.skipif(not MODEL.is_dir(), reason="tiny-qwen3 isn't here (make models)")
@given(_frames(BaseTokenizerMsg, TOKENIZER))
@settings(max_examples=300, deadline=None)
def test_the_tokenizer_takes_the_prompt_that_comes_behind_them(frames: list[bytes]) -> None:
    good = TokenizeMsg(10**9, "hello", SamplingParams())
    socket = Frames(
        [*frames, _deep(b"\xb1BatchTokenizerMsg"), _pack(BaseTokenizerMsg.encoder(good))]
    )
    inbox = _queue(ZmqPullQueue, socket, BaseTokenizerMsg.decoder)
    worker = _worker()
    worker.backend, worker.frontend = [], []
    while socket.left:
        for msg in tokenizer._receive(inbox, 4):
            worker.process(msg)
    last = worker.backend[-1]
    assert isinstance(last, UserMsg) and last.uid == 10**9
    assert _pack(BaseBackendMsg.encoder(BatchBackendMsg(worker.backend)))
    assert _pack(BaseFrontendMsg.encoder(BatchFrontendMsg(worker.frontend)))


@given(_frames(BaseBackendMsg, BACKEND), st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_scheduler_takes_the_messages_among_them(frames: list[bytes], waits: bool) -> None:
    last = _pack(BaseBackendMsg.encoder(AbortBackendMsg(10**9)))
    socket = Frames([*frames, _deep(b"\xafBatchBackendMsg"), last])
    io = object.__new__(SchedulerIOMixin)
    io._inbox, io._last_report = _queue(ZmqPullQueue, socket, BaseBackendMsg.decoder), 0.0
    io._outbox, io.stats = mock.Mock(), mock.Mock()
    msgs = io._recv_msg_single_rank(blocking=waits)
    assert not socket.left and msgs[-1] == AbortBackendMsg(10**9)
    assert not any(isinstance(msg, BatchBackendMsg) for msg in msgs)
    assert _pack(BaseBackendMsg.encoder(BatchBackendMsg(msgs))), "rank 0 hands them on"
