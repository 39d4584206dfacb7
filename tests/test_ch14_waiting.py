"""Chapter 14: what happens around a wait, and which rank waits for what."""

from __future__ import annotations

import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from pairs import equal, error_of
from stub_engine import abort, stub_scheduler, user
from stub_online import kinds, outside, until

PAUSES = (0.05, 0.2, 1.0, 3.0)
"""Seconds for which a few frames are given to arrive, on a machine that may be busy."""


def receiving(rank: Any, blocking: bool, uids: list[int]) -> threading.Thread:
    """A thread that receives once; what came goes to uids."""

    def run() -> None:
        error_of(lambda: uids.extend(msg.uid for msg in rank.receive_msg(blocking)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def probe_check_and_report_come_before_the_wait_also_with_several_ranks(seed):
    got = []
    for size in (1, 2):
        with outside() as o:
            ranks = o.ranks(size)
            checks: list[int] = []
            for number, rank in enumerate(ranks):
                rank.run_when_idle = partial(checks.append, number)
            uids: list[list[int]] = [[] for _ in ranks]
            threads = [receiving(rank, True, came) for rank, came in zip(ranks, uids, strict=True)]
            report = o.replies.socket.poll(timeout=4000) and kinds([o.frame()])
            until(lambda checks=checks, size=size: len(checks) == size, 4)
            got.append([report, sorted(checks), [thread.is_alive() for thread in threads]])
            o.send(abort(1))
            for thread in threads:
                thread.join(10)
            got.append(uids)
    return got


def judge_check_and_report_come_before_the_wait_also_with_several_ranks(seed, got):
    alone, two = [[["StatsMsg"]], [0], [True]], [[["StatsMsg"]], [0, 1], [True] * 2]
    equal(got[::2], [alone, two], "the report, who checked, and who waits, with 1 and 2 ranks")
    equal(got[1::2], [[[1]], [[1]] * 2], "the uids that came then")


def probe_offline_the_check_comes_before_the_hook(seed):
    scheduler, calls = stub_scheduler(), []
    scheduler.run_when_idle = lambda: calls.append("check")
    scheduler.offline_receive_msg = lambda blocking=False: calls.append(f"hook {blocking}") or []
    for blocking in (True, False):
        scheduler.receive_msg(blocking)
    return calls


def judge_offline_the_check_comes_before_the_hook(seed, got):
    equal(got, ["check", "hook True", "hook False"], "calls of a wait and of a look")


def probe_one_call_takes_all_that_is_there(seed):
    got = []
    for blocking in (True, False):
        with outside() as o:
            scheduler = o.scheduler()
            for pause in PAUSES:
                o.send(abort(1), b"\xc1", abort(2), abort(3))
                time.sleep(pause)
                first = [msg.uid for msg in scheduler.receive_msg(blocking)]
                if len(first) == 3:
                    break
                rest = list(first)
                until(lambda s=scheduler, r=rest: r.extend(s.receive_msg()) or len(r) >= 3, 4)
            got.append(first)
    return got


def judge_one_call_takes_all_that_is_there(seed, got):
    equal(got, [[1, 2, 3]] * 2, "what one call took of three messages, waiting and not")


def probe_another_rank_takes_one_message_a_step_and_waits_for_it(seed):
    got = []
    for overlap in (False, True):
        with outside() as o:
            first, second = o.ranks(2, overlap=overlap)
            for uid in range(3):
                o.send(user(uid, [uid + 1] * 3, 20))
                time.sleep(0.05)
                for _ in range(4):
                    first.step()
            for _ in range(12):
                if (error := error_of(second.step)) is not None:
                    return [*got, error]
            thread = receiving(second, False, [])
            thread.join(0.3)
            waits = thread.is_alive()
            first.receive_msg()
            thread.join(10)
            got.append([first.batches == second.batches, waits, thread.is_alive()])
    return got


def judge_another_rank_takes_one_message_a_step_and_waits_for_it(seed, got):
    what = "whether twelve late steps have equal batches, the next one waits, and for ever"
    equal(got, [[True, True, False]] * 2, what)


def is_taken(address: str) -> bool:
    """Whether a process listens at this path."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(address) == 0


def probe_closing_gives_every_address_back(seed):
    with outside() as o:
        first = o.scheduler(rank=0, size=2)
        config = first.config
        paths = [
            address.removeprefix("ipc://")
            for address in (config.zmq_backend_addr, config.zmq_scheduler_broadcast_addr)
        ]
        before = [is_taken(path) for path in paths]
        first.close_queues()
        after = [not until(lambda p=path: not is_taken(p), 5) for path in paths]
        return [before, after, Path(o.folder).is_dir()]


def judge_closing_gives_every_address_back(seed, got):
    equal(got, [[True, True], [False, False], True],
          "requests and broadcast: taken before, taken after; the folder stays")  # fmt: skip
