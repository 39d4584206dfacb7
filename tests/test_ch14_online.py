"""Chapter 14: a scheduler online: requests and replies go through queues, bad frames nowhere."""

from __future__ import annotations

import logging
import os
import time
from typing import Any
from unittest import mock

from pairs import equal, error_of, refused, truth
from stub_engine import abort, answer, said, user
from stub_online import kinds, outside, serve, serve_until, tokens_of

A, B, C = [5, 6, 7], [8, 9], [3, 1, 4, 1, 5]


def batch(*messages: Any) -> Any:
    from minisgl.message import BatchBackendMsg

    return BatchBackendMsg(list(messages))


def leave() -> Any:
    from minisgl.message import ExitMsg

    return ExitMsg()


def without_stats(frames: list[list[Any]]) -> list[list[Any]]:
    return [kept for frame in frames if (kept := [m for m in frame if hasattr(m, "next_token")])]


def stats_of(frames: list[list[Any]]) -> list[Any]:
    return [msg for frame in frames for msg in frame if not hasattr(msg, "next_token")]


def seldom() -> Any:
    """Reports of how much there is to do come before each wait and at no other time."""
    from minisgl.scheduler import io

    return mock.patch.object(io, "STATS_INTERVAL", float("inf"))


def probe_requests_come_singly_in_batches_and_in_batches_of_batches(seed):
    got = []
    for overlap in (False, True):
        with outside() as o:
            scheduler = o.scheduler(overlap)
            deep = user(6, B, 1)
            for _ in range(100):
                deep = batch(deep)
            o.send(user(0, A, 6), batch(), batch(user(1, B, 2), user(2, C, 1)))
            o.send(batch(batch(user(3, A, 3)), user(4, B, 4), batch(batch(user(5, C, 2)))), deep)
            for uid in range(7):
                if uid not in scheduler.replies:
                    serve_until([scheduler], uid)
            got.append([sorted(tokens_of(o.frames(scheduler)).items()), scheduler.engine.wrong])
    return got


def judge_requests_come_singly_in_batches_and_in_batches_of_batches(seed, got):
    prompts = [(A, 6), (B, 2), (C, 1), (A, 3), (B, 4), (C, 2), (B, 1)]
    want = [[uid, said(*request)] for uid, request in enumerate(prompts)]
    equal(got, [[want, []]] * 2, "the replies to each request, and wrong slots")


def probe_messages_are_handed_on_in_order_and_singly(seed):
    with outside() as o:
        scheduler = o.scheduler()
        one, two, three = abort(1), abort(2), abort(3)
        o.send(batch(batch(one), batch(), two), batch(batch(three)))
        got: list[Any] = []
        while len(got) < 3:
            got += scheduler.receive_msg(blocking=True)
        return [[type(msg).__name__, msg.uid] for msg in got] + [scheduler.receive_msg()]


def judge_messages_are_handed_on_in_order_and_singly(seed, got):
    want = [["AbortBackendMsg", uid] for uid in (1, 2, 3)]
    equal(got, [*want, []], "what came in batches, then what there is to have without waiting")


def bad_frames() -> list[bytes]:
    import msgpack

    whole: bytes = msgpack.packb({"__type__": "AbortBackendMsg", "uid": 5, "secret": 1})
    token = {"__type__": "DetokenizeMsg", "uid": 5, "next_token": 1, "finished": True}
    token |= {"error": None, "at_end": False}
    maps = [{"__type__": "Popen", "args": "secret"}, {"uid": "secret"}, token, [token], "secret"]
    maps += [{"__type__": "AbortBackendMsg", "uid": "secret"}, {"__type__": "AbortBackendMsg"}]
    maps += [{"__type__": "BatchBackendMsg", "data": [{"__type__": "ExitMsg"}, token]}]
    return [b"", b"\xc1", whole[:-3], whole, *map(msgpack.packb, maps)]


def probe_what_is_no_message_is_dropped_and_the_next_is_served(seed):
    kept = logging.Handler()
    lines: list[list[str]] = []
    kept.emit = lambda record: lines.append(  # type: ignore[method-assign]
        [record.levelname, record.getMessage()]
    )
    logging.getLogger("minisgl.scheduler.io").addHandler(kept)
    with outside() as o:
        scheduler = o.scheduler()
        for uid, frame in enumerate(bad_frames()):
            o.send(frame, user(uid, B, 2))
            serve_until([scheduler], uid)
        return [sorted(tokens_of(o.frames(scheduler)).items()), lines]


def judge_what_is_no_message_is_dropped_and_the_next_is_served(seed, got):
    replies, lines = got
    count = len(bad_frames())
    equal(replies, [[uid, said(B, 2)] for uid in range(count)], "replies to those that came after")
    equal(len(lines), count, "lines in the log")
    for frame, (level, line) in zip(bad_frames(), lines, strict=True):
        equal(level, "ERROR", "the level of the line")
        truth(line.startswith(f"{len(frame)} bytes"), "it says how long the frame was", line)
        truth("secret" not in line, "it doesn't quote the frame", line)
        named = [kind for kind in ("FrameError", "MessageError") if kind in line]
        equal(len(named), 1, "kinds of error that it names")


def probe_an_exit_message_ends_run_forever(seed):
    from minisgl.env import ENV

    got = []
    for disabled in (False, True):
        for exit_msg in (leave(), batch(abort(3), leave()), batch(batch(leave()))):
            with (
                outside() as o,
                mock.patch.object(ENV.DISABLE_OVERLAP_SCHEDULING, "value", disabled),
            ):
                scheduler = o.scheduler(not disabled)
                o.send(user(0, A, 3))
                serve(scheduler)
                o.send(exit_msg)
                error = error_of(scheduler.run_forever)
                got.append([error and error["kind"], tokens_of(o.frames(scheduler))[0]])
    return got


def judge_an_exit_message_ends_run_forever(seed, got):
    equal(got, [["SchedulerExit", said(A, 3)]] * 6, "what run_forever raises, and the replies")


def probe_tokens_in_flight_are_not_sent_behind_an_exit(seed):
    from minisgl.env import ENV

    got = []
    for disabled in (False, True):
        off = mock.patch.object(ENV.DISABLE_OVERLAP_SCHEDULING, "value", disabled)
        with outside() as o, off:
            scheduler, looks = o.scheduler(not disabled), []
            receive = scheduler.receive_msg

            def five_looks(blocking=False, looks=looks, receive=receive):
                looks.append(blocking)
                return receive(blocking) if len(looks) <= 5 else [leave()]

            scheduler.receive_msg = five_looks
            o.send(user(0, A, 20))
            error_of(scheduler.run_forever)
            got.append([len(scheduler.batches), len(tokens_of(o.frames(scheduler))[0])])
    return got


def judge_tokens_in_flight_are_not_sent_behind_an_exit(seed, got):
    equal(got, [[5, 4], [5, 5]], "batches and replies of five steps, with overlap on and off")


def probe_an_environment_variable_chooses_the_loop_that_runs_forever(seed):
    from minisgl.env import ENV

    got = []
    for disabled in (False, True):
        off = mock.patch.object(ENV.DISABLE_OVERLAP_SCHEDULING, "value", disabled)
        with outside() as o, off:
            scheduler, ran = o.scheduler(not disabled), []
            for name in ("normal_loop", "overlap_loop"):
                plain = getattr(scheduler, name)
                noted = mock.Mock(side_effect=plain)
                setattr(scheduler, name, noted)
                ran.append(noted)
            o.send(user(0, A, 3), leave())
            error_of(scheduler.run_forever)
            got.append([noted.called for noted in ran])
    return got


def judge_an_environment_variable_chooses_the_loop_that_runs_forever(seed, got):
    equal(got, [[False, True], [True, False]], "normal and overlap loop, with overlap on and off")


def probe_shutdown_reaches_the_engine_and_lets_all_tables_go(seed):
    names = ("table_manager", "token_pool", "cache_manager", "prefill_manager")
    with outside() as o:
        scheduler, called = o.scheduler(), []
        close_queues = scheduler.close_queues
        scheduler.close_queues = lambda: (called.append("queues"), close_queues())
        scheduler.engine.shutdown = lambda: called.append("engine")
        before = [name in vars(scheduler) for name in names]
        scheduler.shutdown()
        return [list(called), before, [name in vars(scheduler) for name in names]]


def judge_shutdown_reaches_the_engine_and_lets_all_tables_go(seed, got):
    equal(
        got, [["queues", "engine"], [True] * 4, [False] * 4], "shut down, tables before and after"
    )


def probe_a_request_that_met_an_end_id_takes_no_further_step(seed):
    with outside() as o:
        scheduler = o.scheduler(eos=(answer(A, 6)[3],))
        o.send(user(0, A, 6))
        serve_until([scheduler], 0)
        o.send(user(1, B, 2))
        serve_until([scheduler], 1)
        replies = tokens_of(o.frames(scheduler))
        return [sorted(replies.items()), [phase for phase, _ in scheduler.batches]]


def judge_a_request_that_met_an_end_id_takes_no_further_step(seed, got):
    end = answer(A, 6)[3]
    equal(got[0], [[0, said(A, 6, eos=(end,))], [1, said(B, 2, eos=(end,))]], "replies")
    want = ["prefill", *["decode"] * 3, "prefill", "decode"]
    equal(got[1], want, "batches of a request of four tokens, then of one of two")


def probe_each_step_has_one_frame_of_replies(seed):
    with outside() as o, seldom():
        scheduler = o.scheduler()
        o.send(batch(user(0, A, 4), user(1, B, 2), user(2, C, 4)))
        serve(scheduler)
        o.send(user(3, B, 2))
        serve(scheduler)
        frames = [[m.uid for m in frame] for frame in without_stats(o.frames(scheduler))]
        return [frames, len(scheduler.batches)]


def judge_each_step_has_one_frame_of_replies(seed, got):
    want = [[0, 1, 2], [0, 1, 2], [0, 2], [0, 2], [3], [3]]
    equal(got, [want, 6], "the uids of each frame, and how many batches ran")


def probe_one_reply_goes_alone_and_several_as_a_batch(seed):
    with outside() as o, seldom():
        scheduler = o.scheduler()
        raw = []
        for msg in (user(0, A, 1), batch(user(1, A, 1), user(2, B, 1))):
            o.send(msg)
            serve(scheduler)
            raw += [type(o.replies.get()).__name__ for _ in range(2)]
    return raw


def judge_one_reply_goes_alone_and_several_as_a_batch(seed, got):
    want = ["StatsMsg", "DetokenizeMsg", "StatsMsg", "BatchTokenizerMsg"]
    equal(got, want, "the type of each frame")


def probe_a_refusal_is_answered_at_once(seed):
    with outside() as o, seldom():
        scheduler = o.scheduler(max_seq_len_override=8)
        o.send(batch(user(0, [], 4), user(1, [1] * 8, 4), user(2, [97], 4), user(3, B, 3)))
        scheduler.step()
        frames = without_stats(o.frames(scheduler))
        uids, at_once = [[msg.uid for msg in frame] for frame in frames], tokens_of(frames)
        serve(scheduler)
        later = tokens_of(o.frames(scheduler))
        return [sorted(at_once.items()), sorted(later.items()), uids]


def judge_a_refusal_is_answered_at_once(seed, got):
    first, later, uids = got
    equal(uids, [[0], [1], [2], [3]], "the uids of each frame: a refusal has one of its own")
    equal([[uid, *reply[0][:2]] for uid, reply in first[:3]], [[uid, -1, True] for uid in range(3)],
          "token and end of each refusal")  # fmt: skip
    for (_, [(*_, error)]), words in zip(
        first[:3], ("empty", "8 tokens", "token id 97"), strict=True
    ):
        truth(words in error, f"the reason says {words!r}", error)
    equal(
        [*first[3:], *later], [[3, said(B, 3)[:1]], [3, said(B, 3)[1:]]], "the good one's replies"
    )


def probe_aborted_requests_are_not_answered_and_unknown_ones_do_no_harm(seed):
    got = []
    for overlap in (False, True):
        with outside() as o:
            scheduler = o.scheduler(overlap, max_running_req=2, num_page_override=4096)
            o.send(abort(9), batch(user(0, A, 2000), user(1, B, 2000), user(2, C, 2)))
            while len(scheduler.replies.get(0, [])) < 3:
                scheduler.step()
            o.send(batch(abort(2), abort(0), abort(7)), abort(1), abort(1))
            while not scheduler.is_idle:
                scheduler.step()
                time.sleep(0.001)  # so that the messages arrive before the last token
            scheduler.check()
            o.send(user(3, A, 2))
            serve_until([scheduler], 3)
            got.append(sorted(tokens_of(o.frames(scheduler)).items()))
    return got


def judge_aborted_requests_are_not_answered_and_unknown_ones_do_no_harm(seed, got):
    for first, second, last in got:
        for (uid, replies), prompt in ((first, A), (second, B)):
            want = [[token, False] for token in answer(prompt, len(replies))]
            equal(replies, want, f"replies to request {uid}")
            truth(3 <= len(replies) < 2000, "it ended early", len(replies))
        equal(last, [3, said(A, 2)], "the next request")


def shown(stats: Any) -> list[int]:
    numbers = [stats.running, stats.waiting, stats.used_tokens, stats.cached_tokens]
    return [*numbers, stats.total_tokens]


def free_tokens(scheduler: Any) -> int:
    return len(scheduler.cache_manager.free_slots) * scheduler.config.page_size


def probe_stats_say_who_has_the_pool(seed):
    got = []
    with outside() as o:
        settings = {"cache_type": "radix", "page_size": 4, "num_page_override": 16}
        scheduler = o.scheduler(max_running_req=2, max_extend_tokens=8, **settings)
        stages: Any = {0: batch(user(0, list(range(10)), 5), user(1, B, 9)), 4: user(2, B, 2)}
        for step in range(60):
            if step in stages:
                o.send(stages[step])
                time.sleep(0.05)
            if scheduler.is_idle and step > 4:
                break
            scheduler.step()
            stats = scheduler.stats()
            sizes = scheduler.cache_manager.prefix_cache.size_info
            got.append([shown(stats), free_tokens(scheduler), sizes.evictable_size])
    return got


def judge_stats_say_who_has_the_pool(seed, got):
    for (_, _, used, cached, total), free, evictable in got:
        equal([used + cached + free, total, cached], [64, 64, evictable], "slots, all, and kept")
    equal(got[0][0][:2], [1, 1], "running and waiting while a prompt is cut in two")
    truth(any(stats[:2] == [2, 0] for stats, *_ in got), "both run", got)
    truth(any(stats[:2] == [2, 1] for stats, *_ in got), "two run and one waits", got)
    equal(got[-1][0][:3], [0, 0, 0], "running, waiting and used at the end")
    truth(got[-1][0][3] > 0, "the prefix cache keeps something", got[-1])


def probe_reports_come_before_each_wait_and_else_at_most_once_an_interval(seed):
    from minisgl.scheduler import io

    got = []
    for interval in (float("inf"), 0.0):
        with outside() as o, mock.patch.object(io, "STATS_INTERVAL", interval):
            scheduler = o.scheduler()
            for uid in range(3):
                o.send(user(uid, A, 4))
                serve(scheduler)
            got.append([[name for (name,) in kinds(o.frames(scheduler))], None])
    with outside() as o, mock.patch.object(io, "STATS_INTERVAL", 0.0):
        scheduler = o.scheduler(max_extend_tokens=2)
        o.send(user(0, A * 3, 1))
        serve(scheduler)
        kinds_of = [name for (name,) in kinds(o.frames(scheduler))]
        got.append(kinds_of[: kinds_of.index("DetokenizeMsg")])
    with outside() as o:
        scheduler = o.scheduler(num_page_override=4096)
        o.send(user(0, A, 300))
        start = time.monotonic()
        while scheduler.is_idle or time.monotonic() < start + 1.3:
            scheduler.step()
            time.sleep(0.005)
        seconds = time.monotonic() - start
        got.append([len(stats_of(o.frames(scheduler))), seconds / io.STATS_INTERVAL])
        o.send(abort(0))
    return got


def judge_reports_come_before_each_wait_and_else_at_most_once_an_interval(seed, got):
    rare, often, chunks, timed = got
    equal(rare[0], ["StatsMsg", *["DetokenizeMsg"] * 4] * 3, "frames with an endless interval")
    want = ["StatsMsg", "DetokenizeMsg"] * 12
    equal(often[0], want, "frames with an interval of nothing")
    truth(len(chunks) >= 4, "reports while a prompt without a reply is computed", chunks)
    truth(2 <= timed[0] <= timed[1] + 1, "at most one an interval, and the first", timed)


MOMENTS = (100.0, 100.2, 100.49, 100.5, 100.9, 101.0, 101.1)
"""Seconds on the clock at which a busy scheduler looks for messages."""


def probe_a_busy_scheduler_reports_twice_a_second(seed):
    from minisgl.scheduler import io

    reports = []
    with outside() as o:
        scheduler = o.scheduler()
        for now in MOMENTS:
            with mock.patch.object(io.time, "monotonic", lambda now=now: now):
                scheduler.receive_msg()
            reports.append(len(stats_of(o.frames(scheduler))))
    return reports


def judge_a_busy_scheduler_reports_twice_a_second(seed, got):
    equal(got, [1, 0, 0, 1, 0, 1, 0], f"reports at {MOMENTS}")


def probe_a_rank_that_is_alone_has_nobody_to_broadcast_to(seed):
    with outside() as o:
        made = o.scheduler()
        address = made.config.zmq_scheduler_broadcast_addr
        return os.path.exists(address.removeprefix("ipc://"))


def judge_a_rank_that_is_alone_has_nobody_to_broadcast_to(seed, got):
    equal(got, False, "whether the address of the broadcast is there")


def probe_the_idle_check_runs_before_each_wait_and_only_then(seed):
    with outside() as o:
        scheduler = o.scheduler()
        calls = []
        check = scheduler.run_when_idle
        scheduler.run_when_idle = lambda: (calls.append(len(scheduler.batches)), check())
        for uid in range(3):
            o.send(user(uid, A, 4))
            serve(scheduler)
        scheduler.table_manager.allocate()
        o.send(user(3, A, 4))
        return [calls, error_of(scheduler.step)]


def judge_the_idle_check_runs_before_each_wait_and_only_then(seed, got):
    equal(got[0], [0, 4, 8, 12], "batches before each check")
    refused(got[1], "a row that is nobody's", "rows", kind="RuntimeError")


def probe_without_a_folder_for_its_sockets_it_is_refused(seed):
    from stub_engine import stub_scheduler

    offline = stub_scheduler()
    return [
        error_of(lambda: stub_scheduler(socket_folder="")),
        error_of(lambda: stub_scheduler(socket_folder="", rank=1, size=2)),
        [offline.config.socket_folder, offline.receive_msg(), error_of(offline.close_queues)],
    ]


def judge_without_a_folder_for_its_sockets_it_is_refused(seed, got):
    for error in got[:2]:
        refused(error, "an online scheduler without a folder", "socket_folder", kind="ValueError")
    equal(got[2], ["", [], None], "offline: no folder, nothing has come, nothing to close")


def probe_addresses_lie_in_the_folder(seed):
    from stub_engine import stub_config

    config = stub_config(socket_folder="/a/b")
    return [
        config.zmq_backend_addr,
        config.zmq_detokenizer_addr,
        config.zmq_scheduler_broadcast_addr,
    ]


def judge_addresses_lie_in_the_folder(seed, got):
    equal(len(set(got)), 3, "different addresses")
    for address in got:
        truth(address.startswith("ipc:///a/b/") and address.count("/") == 5, "in /a/b", address)


def probe_closing_ends_all_traffic_and_the_next_scheduler_takes_the_same_folder(seed):
    got, served = [], []
    with outside() as o:
        for uid, close in enumerate(("close_queues", "shutdown", "close_queues")):
            scheduler = o.scheduler()
            o.send(user(uid, A, 2))
            serve_until([scheduler], uid)
            receive, send = scheduler.receive_msg, scheduler.send_result
            got_now = tokens_of(o.frames(scheduler))
            getattr(scheduler, close)()
            got += [error_of(lambda r=receive: r()), error_of(lambda s=send: s([]))]
            scheduler.close_queues()
            served.append(sorted(got_now.items()))
            time.sleep(0.5)  # until the sender has heard: what it sends before goes to nobody
    return [got, served]


def judge_closing_ends_all_traffic_and_the_next_scheduler_takes_the_same_folder(seed, got):
    for error in got[0]:
        refused(error, "a receive or a send after closing", kind="ZMQError")
    equal(got[1], [[[uid, said(A, 2)]] for uid in range(3)], "what each of three answered")


def probe_a_dropped_scheduler_is_freed_at_once(seed):
    import gc
    import weakref

    with outside() as o:
        scheduler = o.scheduler()
        o.closing.remove(scheduler)
        scheduler.close_queues()
        alive = weakref.ref(scheduler)
        gc.disable()
        del scheduler
        freed = alive() is None
        gc.enable()
    return freed


def judge_a_dropped_scheduler_is_freed_at_once(seed, got):
    equal(got, True, "freed, without the garbage collector")
