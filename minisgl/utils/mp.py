"""Queues between processes: ZeroMQ sockets that carry messages as msgpack."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgpack
import zmq
import zmq.asyncio

T = TypeVar("T")
Encoder = Callable[[T], dict[str, Any]]
Decoder = Callable[[dict[str, Any]], T]


LINGER_MS = 1000
"""How long what was put is still sent after stop; a peer that is gone is not waited for longer."""

SUBSCRIBED, UNSUBSCRIBED = b"\x01", b"\x00"
"""What a broadcast's sender hears of a subscriber that wants every message."""


class FrameError(ValueError):
    """What was received is not one whole msgpack map, or a map can't be made one."""


def _pack(data: dict[str, Any]) -> bytes:
    """Return a map as a frame; raises FrameError for a value that msgpack has no form of."""
    try:
        packed: bytes = msgpack.packb(data, use_bin_type=True)
    except (ValueError, OverflowError, TypeError) as error:
        raise FrameError(f"a message can't be packed: {error}") from None
    return packed


def _unpack(raw: bytes) -> dict[str, Any]:
    """Return the map in a frame; raises FrameError for a frame cut short or of anything else."""
    try:
        data = msgpack.unpackb(raw, raw=False)
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"a frame of {len(raw)} bytes can't be read: {error}") from None
    if not isinstance(data, dict):
        raise FrameError(f"a frame holds a map, not a {type(data).__name__}")
    return data


S = TypeVar("S", bound=zmq.Socket[Any])


def _opened(socket: S, addr: str, create: bool) -> S:
    """Bind socket to addr (create) or connect it, and return it.

    Nothing is dropped for want of room.
    """
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    if create:
        socket.bind(addr)
    else:
        socket.connect(addr)
    return socket


class ZmqPushQueue(Generic[T]):
    """The sending end of a queue. create: this end binds addr, and the other connects."""

    def __init__(self, addr: str, create: bool, encoder: Encoder[T]) -> None:
        self.socket: zmq.Socket[bytes] = _opened(
            zmq.Context.instance().socket(zmq.PUSH), addr, create
        )
        self.encoder = encoder

    def put(self, obj: T) -> None:
        """Send one message."""
        self.socket.send(_pack(self.encoder(obj)), copy=False)

    def stop(self) -> None:
        """Close this end."""
        self.socket.close()


class ZmqAsyncPushQueue(Generic[T]):
    """The sending end of a queue, for asyncio."""

    def __init__(self, addr: str, create: bool, encoder: Encoder[T]) -> None:
        self.socket = _opened(zmq.asyncio.Context.instance().socket(zmq.PUSH), addr, create)
        self.encoder = encoder

    async def put(self, obj: T) -> None:
        """Send one message."""
        await self.socket.send(_pack(self.encoder(obj)), copy=False)

    def stop(self) -> None:
        """Close this end."""
        self.socket.close()


class ZmqPullQueue(Generic[T]):
    """The receiving end of a queue. What is no message raises FrameError or the decoder's error;
    it is taken out of the queue then, so that the next call gets the next message."""

    def __init__(self, addr: str, create: bool, decoder: Decoder[T]) -> None:
        self.socket: zmq.Socket[bytes] = _opened(
            zmq.Context.instance().socket(zmq.PULL), addr, create
        )
        self.decoder = decoder

    def get(self) -> T:
        """Wait for a message and return it."""
        return self.decode(self.get_raw())

    def get_raw(self) -> bytes:
        """Wait for a message and return it as it came."""
        raw: bytes = self.socket.recv()
        return raw

    def decode(self, raw: bytes) -> T:
        """Return the message that came as raw."""
        return self.decoder(_unpack(raw))

    def empty(self) -> bool:
        """Whether get would have to wait."""
        return not self.socket.poll(timeout=0)

    def stop(self) -> None:
        """Close this end."""
        self.socket.close()


class ZmqAsyncPullQueue(Generic[T]):
    """The receiving end of a queue, for asyncio; errors as those of ZmqPullQueue."""

    def __init__(self, addr: str, create: bool, decoder: Decoder[T]) -> None:
        self.socket = _opened(zmq.asyncio.Context.instance().socket(zmq.PULL), addr, create)
        self.decoder = decoder

    async def get(self) -> T:
        """Wait for a message and return it."""
        return self.decoder(_unpack(await self.socket.recv()))

    def stop(self) -> None:
        """Close this end."""
        self.socket.close()


class ZmqPubQueue(Generic[T]):
    """The sending end of a broadcast.

    subscribers: how many there will be. The first put waits until all have subscribed, since what
    is published before a subscription has arrived never reaches its subscriber. It raises
    TimeoutError when some are missing after timeout seconds, and sends nothing.
    """

    def __init__(
        self,
        addr: str,
        create: bool,
        encoder: Encoder[T],
        subscribers: int = 0,
        timeout: float = 60.0,
    ) -> None:
        self.socket: zmq.Socket[bytes] = _opened(
            zmq.Context.instance().socket(zmq.XPUB), addr, create
        )
        # report each one who comes or goes, not the first and the last alone
        self.socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.encoder, self.subscribers, self.timeout = encoder, subscribers, timeout
        self.missing = subscribers

    def wait_for_subscribers(self) -> None:
        """Return once all subscribers are there; raises TimeoutError as put does."""
        end = time.monotonic() + self.timeout
        while self.missing > 0:
            left = max(0.0, end - time.monotonic())
            if not self.socket.poll(timeout=int(left * 1000)):
                raise TimeoutError(
                    f"{self.missing} of {self.subscribers} subscribers are missing "
                    f"after {self.timeout} s"
                )
            notice = self.socket.recv()
            self.missing += (notice == UNSUBSCRIBED) - (notice == SUBSCRIBED)

    def put_raw(self, raw: bytes) -> None:
        """Send what came as raw from another queue."""
        self.wait_for_subscribers()
        self.socket.send(raw, copy=False)

    def put(self, obj: T) -> None:
        """Send one message to all subscribers."""
        self.put_raw(_pack(self.encoder(obj)))

    def stop(self) -> None:
        """Close this end."""
        self.socket.close()


class ZmqSubQueue(ZmqPullQueue[T]):
    """A receiving end of a broadcast; each gets every message."""

    def __init__(self, addr: str, create: bool, decoder: Decoder[T]) -> None:
        self.socket: zmq.Socket[bytes] = _opened(
            zmq.Context.instance().socket(zmq.SUB), addr, create
        )
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.decoder = decoder
