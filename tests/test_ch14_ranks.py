"""Chapter 14: several ranks do the same work in the same step, and only rank 0 hears and speaks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from pairs import equal, error_of, public_bug, refused, truth
from stub_engine import abort, answer, said, stub_config, user
from stub_online import outside, serve, serve_until, tokens_of

A, B, C = [5, 6, 7], [8, 9], [3, 1, 4, 1, 5]


def batch(*messages: Any) -> Any:
    from minisgl.message import BatchBackendMsg

    return BatchBackendMsg(list(messages))


def leave() -> Any:
    from minisgl.message import ExitMsg

    return ExitMsg()


def listener(folder: str) -> Any:
    """One more subscriber, which hears what rank 0 tells the other ranks."""
    from minisgl.message import BaseBackendMsg
    from minisgl.utils import ZmqSubQueue

    address = stub_config(socket_folder=folder).zmq_scheduler_broadcast_addr
    return ZmqSubQueue(address, False, BaseBackendMsg.decoder)


def probe_ranks_have_equal_batches_and_tokens(seed):
    rng = random.Random(seed)
    got = []
    for size, overlap in ((2, False), (2, True), (3, True)):
        with outside() as o:
            settings = {"cache_type": "radix", "max_extend_tokens": 8, "page_size": 2}
            ranks = o.ranks(size, overlap=overlap, max_running_req=3, **settings)
            for uid in range(24):
                prompt = [rng.randrange(97) for _ in range(rng.randint(1, 20))]
                o.send(*[b"\xc1"] * rng.randint(0, 1), user(uid, prompt, rng.randint(1, 12)))
                if rng.random() < 0.3:
                    o.send(abort(rng.randint(0, uid + 1)))
                for _ in range(rng.randint(0, 6)):
                    if not all(rank.is_idle for rank in ranks):
                        for rank in ranks:
                            rank.step()
            o.send(user(99, A, 3))
            serve_until(ranks, 99)
            for rank in ranks:
                rank.check()
            first, *others = ranks
            equals = [[r.batches == first.batches, r.replies == first.replies] for r in others]
            wrong = [line for rank in ranks for line in rank.engine.wrong]
            heard = tokens_of(o.frames(first))
            got.append([equals, wrong, heard == first.replies, len(first.batches), heard[99]])
    return got


def judge_ranks_have_equal_batches_and_tokens(seed, got):
    for (equals, wrong, heard, batches, last), others in zip(got, (1, 1, 2), strict=True):
        equal(equals, [[True, True]] * others, "batches and replies as rank 0's")
        equal([wrong, heard], [[], True], "wrong slots, and whether rank 0's replies were heard")
        truth(batches > 50, "there were many batches", batches)
        equal(last, said(A, 3), "the last request's replies")


def probe_each_step_has_one_broadcast_also_when_nothing_came(seed):
    with outside() as o:
        ear = listener(o.folder)
        ranks = [o.scheduler(rank=rank, size=3) for rank in (0, 1)]
        o.send(batch(user(0, A, 4), abort(8)))
        steps = 0
        while not steps or not ranks[0].is_idle:
            for rank in ranks:
                rank.step()
            steps += 1
        o.send(b"\xc1")  # no message, but the wait is over, on every rank
        serve(*ranks)
        heard = [ear.get() for _ in range(steps + 1)]
        more = ear.socket.poll(timeout=100)
        ear.stop()
    shown = [[type(msg).__name__, [type(inner).__name__ for inner in msg.data]] for msg in heard]
    return [shown, more]


def judge_each_step_has_one_broadcast_also_when_nothing_came(seed, got):
    want = [["BatchBackendMsg", ["UserMsg", "AbortBackendMsg"]]] + [["BatchBackendMsg", []]] * 4
    equal(got, [want, 0], "one broadcast for each of four steps and a bad frame, and no other")


def probe_requests_are_taken_in_the_same_step(seed):
    got = []
    with outside() as o:
        ranks = o.ranks(2, max_running_req=3, num_page_override=4096)
        for uid in range(3):
            o.send(user(uid, [uid + 1] * 3, 1000 if uid < 2 else 2))
            rows: Any = [[[-1]]]
            while rows[0][0][0] != uid:
                for rank in ranks:
                    rank.step()
                rows = [rank.batches[-1][1] for rank in ranks]
            got.append(rows)
    return got


def judge_requests_are_taken_in_the_same_step(seed, got):
    equal(got, [[[[uid, 0, 3]]] * 2 for uid in range(3)], "the step in which a prompt is computed")


def probe_a_batch_of_batches_reaches_every_rank_however_deep(seed):
    with outside() as o:
        ranks = o.ranks(2)
        got = []
        for depth in (1, 50, *range(150, 210, 2)):
            frame: Any = {"__type__": "AbortBackendMsg", "uid": 5}
            for _ in range(depth):
                frame = {"__type__": "BatchBackendMsg", "data": [frame]}
            import msgpack

            o.send(msgpack.packb(frame), user(depth, A, 1))
            serve_until(ranks, depth)
            got.append([rank.replies[depth] for rank in ranks])
        return got


def judge_a_batch_of_batches_reaches_every_rank_however_deep(seed, got):
    equal(got, [[said(A, 1)] * 2] * 32, "replies to what came after each")


def probe_exit_ends_every_rank(seed):
    got = []
    for overlap in (False, True):
        for last in (leave(), batch(user(1, B, 3), batch(leave()), user(2, B, 3))):
            with outside() as o:
                ranks = o.ranks(3, overlap=overlap, num_page_override=4096)
                o.send(user(0, A, 2000), last)
                errors: list[Any] = [None]
                while errors[0] is None:
                    errors = [error_of(rank.step) for rank in ranks]
                waiting = [[p.uid for p in rank.prefill_manager.pending_list] for rank in ranks]
                got.append([[error and error["kind"] for error in errors], waiting])
    return got


def judge_exit_ends_every_rank(seed, got):
    for errors, waiting in got:
        equal(errors, ["SchedulerExit"] * 3, "what the same step raises on each rank")
        equal(waiting, waiting[:1] * 3, "which requests were taken before, on each rank")
    for (_, [alone, *_]), (_, [with_others, *_]) in zip(got[::2], got[1::2], strict=True):
        equal([1 in alone, 1 in with_others, 2 in with_others], [False, True, False],
              "in a batch: what came before is taken, what came behind isn't")  # fmt: skip


def probe_rank_1_says_nothing_to_the_outside(seed):
    with outside() as o:
        first, second = o.ranks(2)
        second.send_result([])
        o.send(user(0, A, 4))
        serve(first, second)
        return [sorted(tokens_of(o.frames(first)).items()), sorted(second.replies.items())]


def judge_rank_1_says_nothing_to_the_outside(seed, got):
    equal(got[0], [[0, said(A, 4)]], "what was heard: each token once")
    equal(got[1], [[0, said(A, 4)]], "what rank 1 has computed")


def in_thread(action: Callable[[], Any], results: list[Any]) -> threading.Thread:
    def run() -> None:
        results.append(error_of(action))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def probe_a_rank_that_comes_two_seconds_late_misses_nothing(seed):
    with outside() as o:
        first = o.scheduler(rank=0, size=2)
        o.send(user(0, A, 3), user(1, B, 2), leave())
        ends: list[Any] = []
        start = time.monotonic()
        thread = in_thread(first.run_forever, ends)
        time.sleep(2.0)
        is_waiting = not ends and not first.batches
        second = o.scheduler(rank=1, size=2)
        late = in_thread(second.run_forever, ends)
        thread.join(10)
        late.join(10)
        same = [first.batches == second.batches, first.replies == second.replies]
        return [is_waiting, time.monotonic() - start, [e and e["kind"] for e in ends], same]


def judge_a_rank_that_comes_two_seconds_late_misses_nothing(seed, got):
    is_waiting, seconds, ends, same = got
    equal(is_waiting, True, "rank 0 runs nothing before the other is there")
    truth(seconds < 9, "both ended soon", seconds)
    equal([ends, same], [["SchedulerExit"] * 2, [True, True]], "both ends, and equal work")


def probe_a_rank_that_never_comes_is_named_after_the_timeout(seed):
    with outside() as o:
        settings = {"size": 3, "distributed_timeout": 0.4}
        first, _ = (o.scheduler(rank=rank, **settings) for rank in (0, 1))
        o.send(user(0, A, 3))
        start = time.monotonic()
        return [error_of(first.step), time.monotonic() - start, first.batches]


def judge_a_rank_that_never_comes_is_named_after_the_timeout(seed, got):
    error, seconds, batches = got
    refused(error, "a step with one of two others", "1 of 2", "0.4 s", kind="TimeoutError")
    truth(0.3 < seconds < 5, "it waited for the timeout", seconds)
    equal(batches, [], "batches that rank 0 ran alone")


@public_bug("B27")
def probe_the_idle_check_runs_on_each_rank_before_each_wait(seed):
    got = []
    for overlap in (False, True):
        with outside() as o:
            ranks = o.ranks(3, overlap=overlap)
            calls: list[list[int]] = [[], [], []]
            for rank, noted in zip(ranks, calls, strict=True):
                check = rank.run_when_idle
                rank.run_when_idle = lambda rank=rank, noted=noted, check=check: (
                    noted.append(len(rank.batches)),
                    check(),
                )
            for uid in range(3):
                o.send(user(uid, A, 4))
                serve(*ranks)
            got.append(calls)
    return got


def judge_the_idle_check_runs_on_each_rank_before_each_wait(seed, got):
    equal(got, [[[0, 4, 8]] * 3] * 2, "batches before each check, on each rank")


@public_bug("B27")
def probe_what_leaks_on_rank_1_alone_is_found_there(seed):
    def row(rank: Any) -> None:
        rank.table_manager.allocate()

    def page(rank: Any) -> None:
        rank.cache_manager.free_slots = rank.cache_manager.free_slots[1:]

    got = []
    for leak in (row, page):
        with outside() as o:
            first, second = o.ranks(2)
            o.send(user(0, A, 4))
            serve(first, second)
            leak(second)
            o.send(user(1, A, 1))
            got.append([error_of(rank.step) for rank in (first, second)])
    return got


def judge_what_leaks_on_rank_1_alone_is_found_there(seed, got):
    for (sound, leaky), words in zip(got, ("rows", "page"), strict=True):
        equal(sound, None, "rank 0, which is sound")
        refused(leaky, "rank 1, which has a leak", words, kind="RuntimeError")


class Group:
    """A group of ranks that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def barrier(self) -> Group:
        self.asked.append("barrier")
        return self

    def wait(self) -> bool:
        self.asked.append("wait")
        return True


def probe_ranks_wait_for_each_other_through_the_engines_group(seed):
    group = Group()
    with outside() as o:
        alone, rank = o.scheduler(), o.scheduler(tp_cpu_group=group)
        before = list(group.asked)
        rank.sync_all_ranks()
        return [error_of(alone.sync_all_ranks), alone.tp_cpu_group, rank.tp_cpu_group is group,
                before, group.asked]  # fmt: skip


def judge_ranks_wait_for_each_other_through_the_engines_group(seed, got):
    equal(got, [None, None, True, [], ["barrier", "wait"]], "alone, without a group; with one")


def probe_other_ranks_need_the_broadcast_alone(seed):
    """Rank 1 opens no address that the outside may know."""
    from minisgl.utils import ZmqPullQueue

    with outside() as o:
        second = o.scheduler(rank=1, size=2)
        backend = stub_config(socket_folder=o.folder).zmq_backend_addr
        taken = ZmqPullQueue(backend, True, lambda json: json)
        o.send(user(0, answer(A, 3), 4))
        came = taken.get()["uid"]
        taken.stop()
        second.close_queues()
        return [came, error_of(second.receive_msg)]


def judge_other_ranks_need_the_broadcast_alone(seed, got):
    equal(got[0], 0, "the uid of a request, which did not go to rank 1")
    refused(got[1], "rank 1 after closing", kind="ZMQError")
