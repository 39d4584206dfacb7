"""Chapter 12: queues over sockets, bad frames, and a broadcast that waits for its subscribers."""

from __future__ import annotations

import asyncio
import os
import pickle
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pairs import equal, error_of, refused, truth

UIDS = list(range(300))


@contextmanager
def address(name: str = "queue") -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"ipc://{folder}/{name}"


def soon(action: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What action returns or raises; TimeoutError when that takes too long."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append((action(), None))
        except Exception as error:
            done.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not done:
        raise TimeoutError("nothing came")
    value, error = done[0]
    if error is not None:
        raise error
    return value


def until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether holds() becomes true in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def queue(kind: str, addr: str, create: bool, **more: Any) -> Any:
    """A queue of messages to the scheduler."""
    from minisgl import utils
    from minisgl.message import BaseBackendMsg

    sends = "Push" in kind or "Pub" in kind
    code = BaseBackendMsg.encoder if sends else BaseBackendMsg.decoder
    return getattr(utils, kind)(addr, create, code, **more)


def abort(uid: int) -> Any:
    from minisgl.message import AbortBackendMsg

    return AbortBackendMsg(uid)


def uids(source: Any, count: int) -> list[int]:
    return [soon(source.get).uid for _ in range(count)]


def probe_messages_come_in_order_whichever_end_binds(seed: int) -> Any:
    got = []
    for push_binds in (True, False):
        with address() as addr:
            if push_binds:
                push, pull = queue("ZmqPushQueue", addr, True), queue("ZmqPullQueue", addr, False)
            else:  # the sender comes first and what it sends waits
                push = queue("ZmqPushQueue", addr, False)
                push.put(abort(-1))
                pull = queue("ZmqPullQueue", addr, True)
                got.append(uids(pull, 1))
            for uid in UIDS:
                push.put(abort(uid))
            got.append(uids(pull, len(UIDS)))
            push.stop()
            pull.stop()
    return got


def judge_messages_come_in_order_whichever_end_binds(seed: int, got: Any) -> None:
    equal(got, [UIDS, [-1], UIDS], "uids as they came")


def probe_empty_says_whether_get_would_wait(seed: int) -> Any:
    with address() as addr:
        pull, push = queue("ZmqPullQueue", addr, True), queue("ZmqPushQueue", addr, False)
        before = pull.empty()
        push.put(abort(1))
        came = until(lambda: not pull.empty())
        again, uid = pull.empty(), soon(pull.get).uid
        got = [before, came, again, uid, pull.empty()]
        push.stop()
        pull.stop()
    return got


def judge_empty_says_whether_get_would_wait(seed: int, got: Any) -> None:
    equal(got, [True, True, False, 1, True], "empty before, came, empty then, uid, empty at last")


def bad_frames() -> list[tuple[bytes, str]]:
    """Frames that are no message, and the kind of error for each."""
    import msgpack

    whole: bytes = msgpack.packb({"__type__": "AbortBackendMsg", "uid": 5})
    frames = [whole[:n] for n in range(len(whole))] + [whole + b"\x00", whole * 2]
    frames += [b"\xc1", b"\x05", b"\xc0", msgpack.packb([1]), msgpack.packb("UserMsg")]
    frames += [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 5000, b"\x81\x01\x02"]
    frames += [b"\x81\xa1\xff\x01", b"\x81\x90\x01", pickle.dumps({"uid": 5})]
    ext = msgpack.packb({"__type__": "AbortBackendMsg", "uid": msgpack.ExtType(5, b"x")})
    maps = [b"\x80", ext, msgpack.packb({"__type__": "Popen"}), b"\x81\xc4\x01a\x01"]
    return [(f, "FrameError") for f in frames] + [(f, "MessageError") for f in maps]


def probe_a_bad_frame_is_taken_out_and_the_next_get_works(seed: int) -> Any:
    import zmq

    with address() as addr:
        pull = queue("ZmqPullQueue", addr, True)
        raw = zmq.Context.instance().socket(zmq.PUSH)
        raw.connect(addr)
        good = b"\x82\xa8__type__\xafAbortBackendMsg\xa3uid"
        got = []
        for i, (frame, _) in enumerate(bad_frames()):
            raw.send(frame)
            raw.send(good + bytes([i]))
            got.append([error_of(lambda: soon(pull.get)), soon(pull.get).uid])
        raw.close()
        pull.stop()
    return got


def judge_a_bad_frame_is_taken_out_and_the_next_get_works(seed: int, got: Any) -> None:
    for i, ((frame, kind), (error, uid)) in enumerate(zip(bad_frames(), got, strict=True)):
        refused(error, f"frame {frame[:40]!r}", kind=kind)
        equal(uid, i, f"the uid after frame {frame[:40]!r}")


def probe_what_msgpack_has_no_form_of_is_not_sent(seed: int) -> Any:
    with address() as addr:
        pull, push = queue("ZmqPullQueue", addr, True), queue("ZmqPushQueue", addr, False)
        got = [error_of(lambda u=u: push.put(abort(u))) for u in (2**64, "\ud800")]
        push.put(abort(2**64 - 1))
        got.append(uids(pull, 1))
        push.stop()
        pull.stop()
    return got


def judge_what_msgpack_has_no_form_of_is_not_sent(seed: int, got: Any) -> None:
    for error in got[:2]:
        refused(error, "a value without a form", "packed", kind="FrameError")
    equal(got[2], [2**64 - 1], "what comes after")


def probe_asyncio_queues_keep_order_and_leave_the_loop_free(seed: int) -> Any:
    async def talk(addr: str) -> Any:
        pull, push = queue("ZmqAsyncPullQueue", addr, True), queue("ZmqAsyncPushQueue", addr, False)
        waiting = asyncio.create_task(pull.get())
        await asyncio.sleep(0.05)  # nothing has come: the loop is not held up
        free = not waiting.done()
        for uid in UIDS:
            await push.put(abort(uid))
        first = (await asyncio.wait_for(waiting, 10)).uid
        rest = [(await asyncio.wait_for(pull.get(), 10)).uid for _ in UIDS[1:]]
        push.stop()
        pull.stop()
        return [free, [first, *rest], push.socket.closed, pull.socket.closed]

    with address() as addr:
        return asyncio.run(talk(addr))


def judge_asyncio_queues_keep_order_and_leave_the_loop_free(seed: int, got: Any) -> None:
    equal(got, [True, UIDS, True, True], "loop free, uids, both ends closed")


def probe_asyncio_and_plain_ends_fit_and_a_bad_frame_is_taken_out(seed: int) -> Any:
    import zmq

    async def receive(addr: str) -> Any:
        pull = queue("ZmqAsyncPullQueue", addr, True)
        raw = zmq.Context.instance().socket(zmq.PUSH)
        raw.connect(addr)
        raw.send(b"\xc1")
        error = None
        try:
            await asyncio.wait_for(pull.get(), 10)
        except ValueError as raised:
            error = {"kind": type(raised).__name__, "message": str(raised)}
        push = queue("ZmqPushQueue", addr, False)
        push.put(abort(4))
        uid = (await asyncio.wait_for(pull.get(), 10)).uid
        for end in (raw, push.socket, pull.socket):
            end.close()
        return [error, uid]

    async def send(addr: str) -> None:
        push = queue("ZmqAsyncPushQueue", addr, True)
        await push.put(abort(5))
        push.stop()

    with address() as addr:
        first = asyncio.run(receive(addr))
    with address() as addr:
        pull = queue("ZmqPullQueue", addr, False)
        asyncio.run(send(addr))
        first.append(uids(pull, 1))
        pull.stop()
    return first


def judge_asyncio_and_plain_ends_fit_and_a_bad_frame_is_taken_out(seed: int, got: Any) -> None:
    refused(got[0], "the byte c1", kind="FrameError")
    equal(got[1:], [4, [5]], "what comes after, and what an asyncio end sends")


def listener(addr: str, count: int, delay: float) -> tuple[threading.Thread, list[int]]:
    """A subscriber in a thread, that comes after delay seconds; and what it gets."""
    got: list[int] = []

    def listen() -> None:
        time.sleep(delay)
        sub = queue("ZmqSubQueue", addr, False)
        got.extend(sub.get().uid for _ in range(count))
        sub.stop()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    return thread, got


def probe_a_subscriber_that_comes_two_seconds_late_gets_every_message(seed: int) -> Any:
    with address() as addr:
        pub = queue("ZmqPubQueue", addr, True, subscribers=3)
        listeners = [listener(addr, 20, delay) for delay in (0.0, 0.3, 2.0)]
        start = time.monotonic()
        pub.put(abort(0))
        waited = time.monotonic() - start
        for uid in range(1, 20):
            pub.put(abort(uid))
        for thread, _ in listeners:
            thread.join(10)
        pub.stop()
    return [waited, [got for _, got in listeners]]


def judge_a_subscriber_that_comes_two_seconds_late_gets_every_message(seed: int, got: Any) -> None:
    equal(got[1], [list(range(20))] * 3, "what each subscriber got")
    truth(got[0] > 1.5, "the first put waited for the late one", got[0])


def probe_put_says_how_many_subscribers_are_missing_and_sends_nothing(seed: int) -> Any:
    with address() as addr:
        pub = queue("ZmqPubQueue", addr, True, subscribers=3, timeout=0.5)
        first = queue("ZmqSubQueue", addr, False)
        errors = [error_of(lambda: pub.put(abort(1)))]
        second = queue("ZmqSubQueue", addr, False)
        errors.append(error_of(pub.wait_for_subscribers))
        third = queue("ZmqSubQueue", addr, False)
        pub.put(abort(2))
        got = [uids(sub, 1) for sub in (first, second, third)]
        empty = [sub.empty() for sub in (first, second, third)]
        for end in (pub, first, second, third):
            end.stop()
    return [errors, got, empty]


def judge_put_says_how_many_subscribers_are_missing_and_sends_nothing(seed: int, got: Any) -> None:
    refused(got[0][0], "a put with one of three there", "2 of 3", "0.5 s", kind="TimeoutError")
    refused(got[0][1], "waiting with two of three there", "1 of 3", kind="TimeoutError")
    equal(got[1:], [[[2]] * 3, [True] * 3], "what each got, and whether that is all")


def probe_one_that_left_again_is_missing_again(seed: int) -> Any:
    with address() as addr:
        pub = queue("ZmqPubQueue", addr, True, subscribers=2, timeout=0.5)
        leaves = queue("ZmqSubQueue", addr, False)
        errors = [error_of(lambda: pub.put(abort(1)))]
        leaves.stop()
        errors.append(error_of(lambda: pub.put(abort(1))))
        pub.timeout = 10.0
        subs = [queue("ZmqSubQueue", addr, False) for _ in range(2)]
        pub.put(abort(2))
        got = [uids(sub, 1) for sub in subs]
        for end in (pub, *subs):
            end.stop()
    return [errors, got]


def judge_one_that_left_again_is_missing_again(seed: int, got: Any) -> None:
    for error, words in zip(got[0], ("1 of 2", "2 of 2"), strict=True):
        refused(error, "a put with one there, or gone again", words, kind="TimeoutError")
    equal(got[1], [[2], [2]], "what came once both were there")


def probe_without_a_number_of_subscribers_put_waits_for_nobody(seed: int) -> Any:
    with address() as addr:
        pub = queue("ZmqPubQueue", addr, True)
        start = time.monotonic()
        pub.put(abort(1))
        waited = time.monotonic() - start
        pub.stop()
    return waited


def judge_without_a_number_of_subscribers_put_waits_for_nobody(seed: int, got: Any) -> None:
    truth(got < 5.0, "put returned at once", got)


def probe_raw_frames_are_passed_on_as_they_came(seed: int) -> Any:
    """From a queue to a broadcast, without decoding between."""
    with address("queue") as addr, address("broadcast") as other:
        pull, push = queue("ZmqPullQueue", addr, True), queue("ZmqPushQueue", addr, False)
        pub = queue("ZmqPubQueue", other, True, subscribers=1)
        sub = queue("ZmqSubQueue", other, False)
        push.put(abort(7))
        raw = soon(pull.get_raw)
        pub.put_raw(raw)
        passed = soon(sub.get_raw)
        got = [passed == raw, raw.hex(), pull.decode(raw).uid, sub.decode(passed).uid]
        for end in (pull, push, pub, sub):
            end.stop()
    return got


def judge_raw_frames_are_passed_on_as_they_came(seed: int, got: Any) -> None:
    frame = b"\x82\xa8__type__\xafAbortBackendMsg\xa3uid\x07".hex()
    equal(got, [True, frame, 7, 7], "equal, the frame, the uid at both ends")


def probe_what_was_put_before_stop_still_arrives(seed: int) -> Any:
    with address() as addr:
        push = queue("ZmqPushQueue", addr, False)
        for uid in UIDS:
            push.put(abort(uid))
        push.stop()
        pull = queue("ZmqPullQueue", addr, True)  # nobody could receive before
        got = uids(pull, len(UIDS))
        pull.stop()
    return got


def judge_what_was_put_before_stop_still_arrives(seed: int, got: Any) -> None:
    equal(got, UIDS, "uids that came after the sender had stopped")


def probe_what_nobody_takes_is_kept_for_a_second_after_stop(seed: int) -> Any:
    import zmq

    with address() as addr:
        kinds = ("ZmqPullQueue", "ZmqPushQueue", "ZmqAsyncPushQueue")
        ends = [queue(kind, addr, "Pull" in kind) for kind in kinds]
        seconds = [end.socket.getsockopt(zmq.LINGER) / 1000 for end in ends]
        for end in ends:
            end.stop()
    return seconds


def judge_what_nobody_takes_is_kept_for_a_second_after_stop(seed: int, got: Any) -> None:
    equal(got, [1.0] * 3, "seconds that a socket goes on sending after it was closed")


def probe_stop_closes_and_the_address_is_free_again(seed: int) -> Any:
    got = []
    for binds, connects in (("ZmqPullQueue", "ZmqPushQueue"), ("ZmqPubQueue", "ZmqSubQueue")):
        with address() as addr:
            for _ in range(3):
                ends = [queue(binds, addr, True), queue(connects, addr, False)]
                if connects == "ZmqPushQueue":
                    ends[1].put(abort(6))
                    got.append(uids(ends[0], 1))
                for end in ends:
                    end.stop()
                got.append([end.socket.closed for end in ends])
            folder = os.path.dirname(addr.removeprefix("ipc://"))
            got.append([os.listdir(folder), stat.S_IMODE(os.stat(folder).st_mode)])
    return got


def judge_stop_closes_and_the_address_is_free_again(seed: int, got: Any) -> None:
    there = [["queue"], 0o700]  # ZeroMQ leaves the name; it goes with its private folder
    equal(got, [[6], [True] * 2] * 3 + [there] + [[True] * 2] * 3 + [there], "uids, ends, folder")
