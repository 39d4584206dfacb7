"""Chapter 11: the next batch is launched before the last one is read, and nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from pairs import equal, public_bug, truth
from stub_engine import Done, abort, answer, stub_scheduler, user

ENDS = (5, 11)


def requests(seed: int, count: int = 12) -> list[tuple[list[int], int]]:
    """Prompts and max_tokens; half of the prompts share their beginning."""
    rng = np.random.default_rng(seed)
    shared = rng.integers(0, 97, 9).tolist()
    lengths = rng.integers(1, 14, count)
    prompts = [shared * (i % 2) + rng.integers(0, 97, n).tolist() for i, n in enumerate(lengths)]
    return list(zip(prompts, rng.integers(1, 12, count).tolist(), strict=True))


def served(asked: list[tuple[list[int], int]], **settings: Any) -> dict[int, Any]:
    scheduler = stub_scheduler(**settings)
    scheduler.send(*(user(uid, *request) for uid, request in enumerate(asked)))
    return scheduler.run()


def flagged(tokens: list[int]) -> list[list[Any]]:
    """The replies that carry these tokens: the last one is finished."""
    return [[token, i == len(tokens) - 1] for i, token in enumerate(tokens)]


@public_bug("B63")
def probe_the_last_token_and_no_other_is_finished(seed):
    prompt = [1, 2, 3]
    return [
        [served([(prompt, count)], overlap=overlap)[0] for overlap in (True, False)]
        for count in (1, 2, 3, 8)
    ]


def judge_the_last_token_and_no_other_is_finished(seed, got):
    for count, (with_overlap, without) in zip((1, 2, 3, 8), got, strict=True):
        want = flagged(answer([1, 2, 3], count))
        equal(with_overlap, want, f"replies for max_tokens {count}, with overlap")
        equal(without, want, f"replies for max_tokens {count}, without")


def probe_nothing_follows_an_end_id(seed):
    end = answer([1, 2, 3], 9)
    found = []
    for at in (0, 1, 2, 7, 8):
        found.append(served([([1, 2, 3], 9)], overlap=True, eos=(end[at],))[0])
    ignoring = stub_scheduler(overlap=True, eos=(end[2],))
    ignoring.send(user(0, [1, 2, 3], 9, ignore_eos=True))
    return [found, ignoring.run()[0]]


def judge_nothing_follows_an_end_id(seed, got):
    tokens = answer([1, 2, 3], 9)
    for at, replies in zip((0, 1, 2, 7, 8), got[0], strict=True):
        equal(replies, flagged(tokens[: at + 1]), f"replies with an end id at {at}")
    equal(got[1], flagged(tokens), "replies with an end id that is ignored")


WAYS = [
    {"cache_type": "naive"},
    {"cache_type": "radix"},
    {"cache_type": "radix", "page_size": 4, "max_extend_tokens": 7},
    {"cache_type": "naive", "page_size": 16, "max_running_req": 2, "num_page_override": 8},
]


def probe_replies_are_equal_with_overlap_on_and_off(seed):
    found = []
    for way in WAYS:
        runs = [served(requests(seed), overlap=on, eos=ENDS, **way) for on in (True, False)]
        found.append([[run[uid] for uid in sorted(run)] for run in runs])
    return found


def judge_replies_are_equal_with_overlap_on_and_off(seed, got):
    want = [flagged(answer(*request, eos=ENDS)) for request in requests(seed)]
    for way, (with_overlap, without) in zip(WAYS, got, strict=True):
        equal(with_overlap, want, f"replies with overlap, {way}")
        equal(without, want, f"replies without overlap, {way}")


def watched(overlap: bool, **settings: Any) -> tuple[Any, list[str]]:
    """A scheduler, and the list in which its launches and readings will be noted."""
    scheduler = stub_scheduler(overlap=overlap, **settings)
    noted: list[str] = []
    plain = scheduler.engine.forward_batch

    class Tokens:
        """Tokens on the CPU that tell when they are read."""

        def __init__(self, number: int, tokens: Any) -> None:
            self.number, self.tokens = number, tokens

        def tolist(self) -> list[int]:
            noted.append(f"read {self.number}")
            return self.tokens.tolist()

    class Event:
        """An event that tells when it is recorded and waited for."""

        def __init__(self, number: int, event: Any) -> None:
            self.number, self.event = number, event

        def record(self, stream: object = None) -> None:
            noted.append(f"record {self.number}")

        def synchronize(self) -> None:
            noted.append(f"wait {self.number}")
            self.event.synchronize()

    class Pool:
        """A token pool that tells when it is written to."""

        def __init__(self, pool: Any) -> None:
            self.pool = pool

        def __getitem__(self, where: Any) -> Any:
            return self.pool[where]

        def __setitem__(self, where: Any, value: Any) -> None:
            noted.append(f"write {sum(x.startswith('launch') for x in noted)}")
            self.pool[where] = value

    def forward_batch(batch: Any, args: Any) -> Any:
        number = 1 + sum(x.startswith("launch") for x in noted)
        noted.append(f"launch {number}")
        output = plain(batch, args)
        output.next_tokens_cpu = Tokens(number, output.next_tokens_cpu)
        output.copy_done_event = Event(number, output.copy_done_event)
        return output

    scheduler.engine.forward_batch = forward_batch
    scheduler.token_pool = Pool(scheduler.token_pool)
    return scheduler, noted


def probe_a_batch_is_launched_before_the_last_one_is_read(seed):
    found = []
    for overlap in (True, False):
        scheduler, noted = watched(overlap)
        scheduler.send(user(0, [1, 2, 3], 3))
        scheduler.run()
        found.append([x for x in noted if x.split()[0] in ("launch", "read")])
    return found


def judge_a_batch_is_launched_before_the_last_one_is_read(seed, got):
    equal(got[0], ["launch 1", "launch 2", "read 1", "launch 3", "read 2", "read 3"],
          "order with overlap")  # fmt: skip
    equal(got[1], ["launch 1", "read 1", "launch 2", "read 2", "launch 3", "read 3"],
          "order without overlap")  # fmt: skip


def probe_tokens_are_read_after_an_event_that_follows_their_write_to_the_pool(seed):
    found = []
    for overlap in (True, False):
        scheduler, noted = watched(overlap, max_extend_tokens=3)
        scheduler.send(*(user(uid, *request) for uid, request in enumerate(requests(seed))))
        scheduler.run()
        found.append(noted)
    return found


def judge_tokens_are_read_after_an_event_that_follows_their_write_to_the_pool(seed, got):
    for noted in got:
        launches = [x.split()[1] for x in noted if x.startswith("launch")]
        truth(len(launches) > 40, "many batches", len(launches))
        for number in launches:
            of_this = [x.split()[0] for x in noted if x.split()[1] == number]
            equal(of_this, ["launch", "write", "record", "wait", "read"], f"batch {number}")


def probe_one_loop_keeps_one_batch_in_flight_and_the_other_none(seed):
    found = []
    for overlap in (True, False):
        scheduler = stub_scheduler(overlap=overlap)
        scheduler.send(user(0, [1, 2, 3], 4))
        flights = []
        for _ in range(6 if overlap else 5):
            try:
                scheduler.step()
            except Done:
                break
            sent = len(scheduler.replies.get(0, []))
            flights.append([len(scheduler.in_flight), scheduler.data is not None, sent])
        found.append(flights)
    return found


def judge_one_loop_keeps_one_batch_in_flight_and_the_other_none(seed, got):
    equal(got[0], [[1, True, 0], [1, True, 1], [1, True, 2], [1, True, 3], [0, False, 4]],
          "after each step: batches in flight, whether one is returned, tokens sent")  # fmt: skip
    equal(got[1], [[0, False, sent] for sent in (1, 2, 3, 4)], "the same without overlap")


def probe_messages_are_waited_for_only_when_nothing_is_left_to_do(seed):
    found = []
    for overlap in (True, False):
        scheduler = stub_scheduler(overlap=overlap)
        asked: list[bool] = []

        def receive(blocking: bool = False, plain: Any = scheduler.offline_receive_msg,
                    asked: list[bool] = asked) -> Any:  # fmt: skip
            asked.append(blocking)
            return plain(blocking)

        scheduler.offline_receive_msg = receive
        scheduler.send(user(0, [1, 2, 3], 2))
        scheduler.run()
        found.append(asked)
    return found


def judge_messages_are_waited_for_only_when_nothing_is_left_to_do(seed, got):
    equal(got[0], [True, False, False, True], "whether each step waits, with overlap")
    equal(got[1], [True, False, True], "whether each step waits, without")


def probe_a_refused_request_is_told_so_at_once_and_the_others_go_on(seed):
    scheduler = stub_scheduler()
    scheduler.send(user(4, [1, 2], 3), user(7, [], 3), user(2, [99], 3))
    replies = scheduler.run()
    return [[replies[uid] for uid in (4, 7, 2)], sorted(replies)]


def judge_a_refused_request_is_told_so_at_once_and_the_others_go_on(seed, got):
    replies, uids = got
    equal(uids, [2, 4, 7], "the requests that were answered")
    equal(replies[0], flagged(answer([1, 2], 3)), "replies to the sound request")
    for [(token, finished, error)], word in zip(replies[1:], ("empty", "99"), strict=True):
        equal([token, finished], [-1, True], "token and end of a refused request")
        truth(word in error, f"the reason names {word}", error)


def probe_a_new_scheduler_waits_for_the_device_before_it_makes_its_tables(seed):
    seen = []
    waits = mock.patch(
        "minisgl.scheduler.scheduler.synchronize", lambda device: seen.append(device.type)
    )
    with waits:
        stub_scheduler()
    return seen


def judge_a_new_scheduler_waits_for_the_device_before_it_makes_its_tables(seed, got):
    equal(got, ["cpu"], "the devices that were waited for")


def probe_an_environment_variable_chooses_the_loop(seed):
    from minisgl.env import ENV

    found = []
    for disabled in (False, True):
        scheduler, noted = watched(True)
        scheduler.send(user(0, [1, 2, 3], 3))
        with mock.patch.object(ENV.DISABLE_OVERLAP_SCHEDULING, "value", disabled):
            try:
                scheduler.run_forever()
            except Done:
                order = [x for x in noted if x.split()[0] in ("launch", "read")]
                found.append([order[1], scheduler.replies[0]])
    return found


def judge_an_environment_variable_chooses_the_loop(seed, got):
    want = flagged(answer([1, 2, 3], 3))
    equal(got, [["launch 2", want], ["read 1", want]], "what follows the first launch, and replies")


def probe_a_request_that_comes_in_while_others_run_joins_them(seed):
    found = []
    for overlap in (True, False):
        scheduler = stub_scheduler(overlap=overlap, eos=ENDS)
        for uid, request in enumerate(requests(seed)):
            scheduler.send(user(uid, *request))
            for _ in range(1 + uid % 3):
                if scheduler.inbox or not scheduler.is_idle:  # all may have ended early
                    scheduler.step()
        scheduler.send(abort(99))
        replies = scheduler.run()
        found.append([replies[uid] for uid in sorted(replies)])
    return found


def judge_a_request_that_comes_in_while_others_run_joins_them(seed, got):
    want = [flagged(answer(*request, eos=ENDS)) for request in requests(seed)]
    equal(got[0], want, "replies with overlap")
    equal(got[1], want, "replies without")


def probe_a_trace_shows_that_the_cpu_works_while_a_batch_is_in_flight(seed):
    import torch

    from minisgl.utils.trace import TraceRecorder

    scheduler = stub_scheduler(overlap=True)
    scheduler.trace = TraceRecorder(torch.device("cpu"))
    scheduler.send(user(0, [1, 2, 3], 2))
    scheduler.run()
    events = [e for e in scheduler.trace.events() if e["ph"] == "X"]
    lanes = {lane: [e["name"] for e in events if e["tid"] == lane] for lane in (1, 2)}
    tokens = [list(e["args"]["tokens"].values()) for e in events if e["tid"] == 2]
    return [lanes[1], lanes[2], tokens]


def judge_a_trace_shows_that_the_cpu_works_while_a_batch_is_in_flight(seed, got):
    launch = ["schedule", "launch"]
    want = [*launch, *launch, "wait", "read", "schedule", "wait", "read"]
    equal(got[0][: len(want)], want, "the scheduler's lane")
    equal(got[1], ["prefill", "decode"], "the device's lane")
    equal(got[2], [[3], [1]], "tokens of each batch")


class NotedStream:
    """Stands for a CUDA stream: it notes who waits for whom."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self.name, self.noted = name, noted

    def wait_stream(self, other: NotedStream) -> None:
        self.noted.append(f"{self.name} waits for {other.name}")


def probe_a_launch_lies_on_the_engine_s_stream_behind_the_scheduler_s(seed):
    import torch

    scheduler, noted = stub_scheduler(overlap=True), []
    on = ["none"]

    @contextmanager
    def using(stream: NotedStream) -> Iterator[None]:
        on.append(stream.name)
        try:
            yield
        finally:
            on.pop()

    def noting(name: str, plain: Any) -> Any:
        return lambda *args: noted.append(f"{name} on {on[-1]}") or plain(*args)

    scheduler.stream = NotedStream("scheduler", noted)
    scheduler.engine.stream = NotedStream("engine", noted)
    scheduler._prepare_batch = noting("prepare", scheduler._prepare_batch)
    scheduler.engine.forward_batch = noting("forward", scheduler.engine.forward_batch)
    scheduler._take_token = noting("read", scheduler._take_token)
    scheduler.send(user(0, [1, 2, 3], 2))
    with mock.patch.object(torch.cuda, "stream", using):
        scheduler.run()
    return [noted, on, scheduler.tokens(0)]


def judge_a_launch_lies_on_the_engine_s_stream_behind_the_scheduler_s(seed, got):
    launch = ["prepare on scheduler", "engine waits for scheduler", "forward on engine"]
    read = ["read on scheduler"]
    equal(got[0], launch + launch + read + read, "what two batches do on which stream")
    equal(got[1], ["none"], "streams left at the end")
    equal(got[2], answer([1, 2, 3], 2), "tokens")
