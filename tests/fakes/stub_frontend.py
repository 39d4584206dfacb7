"""The API's side of the service, with a script in place of tokenizers and scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

PATIENCE = 10.0
"""Seconds after which a test that waits for something fails."""


def stub_args(**settings: Any) -> Any:
    """Settings of a server of a model that is not there."""
    import torch

    from minisgl.distributed.info import DistributedInfo
    from minisgl.server.args import ServerArgs

    fixed = {"model_path": "no/model", "tp_info": DistributedInfo(0, 1), "dtype": torch.float32}
    return ServerArgs(**{**fixed, **settings})


def reply(uid: int, text: str, finished: bool = False, **more: Any) -> Any:
    """A piece of an answer that stands for one token."""
    from minisgl.message import UserReply

    return UserReply(uid, text, finished, **{"num_tokens": 1, **more})


def error(uid: int, why: str) -> Any:
    """What ends a request that can't be answered."""
    return reply(uid, "", finished=True, error=why, num_tokens=0)


def script(msg: Any) -> list[Any]:
    """What is answered to a prompt.

    "say a b": "a " and "b ". "begin a": "a " and no more. "fail a": "a " and an error; "refuse":
    an error at once. Nothing to anything else.
    """
    if type(msg).__name__ != "TokenizeMsg":
        return []
    text = msg.text if isinstance(msg.text, str) else msg.text[-1]["content"]
    verb, *words = text.split(" ")
    if verb == "refuse":
        return [error(msg.uid, "the prompt is too long")]
    if verb not in ("say", "begin", "fail"):
        return []
    counts = {"prompt_tokens": 5, "cached_tokens": 2}
    replies = [reply(msg.uid, f"{word} ") for word in words]
    replies[0] = reply(msg.uid, f"{words[0]} ", **counts)
    replies[-1].finished = verb == "say"
    return replies + ([error(msg.uid, "it broke")] if verb == "fail" else [])


class Tokenizers:
    """Both queues of a FrontendManager: what was sent, and what is to come. is_closed: by stop."""

    def __init__(self, answers: Callable[[Any], list[Any]] = script) -> None:
        self.sent: list[Any] = []
        self.answers = answers
        self.coming: asyncio.Queue[Any] = asyncio.Queue()
        self.is_closed = False

    async def put(self, msg: Any) -> None:
        """Take a message, and answer it as the script says."""
        self.sent.append(msg)
        for answer in self.answers(msg):
            self.coming.put_nowait(answer)

    async def get(self) -> Any:
        """The next message; one that is an error is raised."""
        msg = await self.coming.get()
        if isinstance(msg, Exception):
            raise msg
        return msg

    async def say(self, *messages: Any) -> None:
        """Let these come, and wait until they are taken."""
        for msg in messages:
            self.coming.put_nowait(msg)
        await self.settle()

    async def settle(self) -> None:
        """Return when all that came has been handed on."""
        for _ in range(20):
            await asyncio.sleep(0)

    def sent_as(self) -> list[list[Any]]:
        """[kind, uid] of each message that was sent."""
        return [[type(msg).__name__, msg.uid] for msg in self.sent]

    def stop(self) -> None:
        self.is_closed = True


@asynccontextmanager
async def stub_frontend(
    answers: Callable[[Any], list[Any]] = script, **settings: Any
) -> AsyncIterator[tuple[Any, Tokenizers]]:
    """A FrontendManager that listens, and what stands behind it."""
    from minisgl.server.frontend import FrontendManager

    queues = Tokenizers(answers)
    state = FrontendManager(stub_args(**settings), queues, queues)  # type: ignore[arg-type]
    listener, scene = asyncio.create_task(state.listen()), asyncio.current_task()
    assert scene is not None, "this is entered in a task"
    listener.add_done_callback(lambda task: task.cancelled() or scene.cancel())
    try:
        yield state, queues
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


def left_over(state: Any) -> list[Any]:
    """What a state still has of requests; all empty when each is closed."""
    return [state.ack_map, state.event_map, sorted(state.waiting)]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """What work returns; an error when it waits for what does not come, or nobody listens."""

    async def limited() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await work

    try:
        return asyncio.run(limited())
    except asyncio.CancelledError:
        raise RuntimeError("the frontend listens no more") from None


async def trouble(work: Coroutine[Any, Any, Any]) -> Any:
    """The status, the message and the headers of the ApiError that work raises; None for none."""
    from minisgl.server.errors import ApiError

    try:
        await work
    except ApiError as error:
        return [error.status, error.message, error.headers]
    return None
