"""Steps two schedulers in any order, joined by queues in memory; a rank that waits is noticed."""

from __future__ import annotations

from collections import deque
from random import Random

from pairs import equal, truth
from stub_engine import abort, stub_scheduler, user

A, B, LONG = [5, 6, 7], [8, 9], 200
"""Two prompts, and how many tokens a request gets that is to outlive the case."""

ROUNDS = 300


class Waits(Exception):
    """A rank reads from an empty queue: in a process of its own it would stand there."""


class Queue:
    """Frames in order. put, get, empty, get_raw and decode are those of the chapter's queues."""

    def __init__(self):
        self.frames, self.sent = deque(), 0

    def put(self, msg):
        import msgpack

        from minisgl.message import BaseBackendMsg

        self.frames.append(msgpack.packb(BaseBackendMsg.encoder(msg)))
        self.sent += 1

    def empty(self):
        return not self.frames

    def get_raw(self):
        if not self.frames:
            raise Waits
        return self.frames.popleft()

    def decode(self, raw):
        import msgpack

        from minisgl.message import BaseBackendMsg, MessageError

        if raw == b"\xc1":
            raise MessageError("no message")
        return BaseBackendMsg.decoder(msgpack.unpackb(raw))

    def get(self):
        return self.decode(self.get_raw())


class Nowhere:
    """Where reports go."""

    def put(self, msg):
        pass


class Pair:
    """Two ranks that receive by these two functions."""

    def __init__(self, receive_rank0, receive_rank1, overlap=False):
        self.requests, self.broadcast = Queue(), Queue()
        self.ranks = [stub_scheduler(overlap, num_page_override=1024) for _ in range(2)]
        first, second = self.ranks
        first._inbox, first._outbox, first._broadcast = self.requests, Nowhere(), self.broadcast
        second._inbox = self.broadcast
        first._receive_msg, second._receive_msg = receive_rank0, receive_rank1

    def send(self, *messages):
        for msg in messages:
            if isinstance(msg, bytes):
                self.requests.frames.append(msg)
            else:
                self.requests.put(msg)

    def step(self, rank):
        """Whether the rank could do a step; if not, it waits and tries again the next time."""
        try:
            self.ranks[rank].step()
        except Waits:
            return False
        return True

    def play(self, order, *messages):
        """Steps of both ranks: "0" and "1", and "B" for the next message that arrives."""
        coming = iter(messages)
        for event in order:
            if event == "B":
                self.send(next(coming))
            else:
                self.step(int(event))

    def finish(self, order="01"):
        """Step until no rank can go on."""
        for _ in range(ROUNDS):
            has_moved = [self.step(int(rank)) for rank in order]
            if not any(has_moved):
                return

    def found(self):
        """Plain data about what each rank has computed, and whether rank 1 is left standing."""
        first, second = self.ranks
        return {
            "batches": [first.batches, second.batches],
            "stands": not second.is_idle,
            "unread": len(self.broadcast.frames),
        }


def planted():
    """The two functions that the reader starts from."""
    from minisgl.message import BatchBackendMsg

    def receive_rank0(io, blocking=False):
        msgs = io._recv_msg_single_rank(blocking)
        if msgs:
            io._broadcast.put(BatchBackendMsg(msgs))
        return msgs

    def receive_rank1(io, blocking=False):
        if not blocking and io._inbox.empty():
            return []
        return io._inbox.get().data

    return receive_rank0, receive_rank1


def sign(number):
    return (number > 0) - (number < 0)


def orders(seed, who):
    """Orders of steps in which, when rank 0 takes B, rank `who` has done more; None: neither."""
    random = Random(f"{seed} {who}")
    found = []
    while len(found) < 5:
        before, after = ("".join(random.choices("01", k=random.randrange(2, 9))) for _ in "ab")
        lead = (before + after[: after.find("0")]).count("1") - before.count("0")
        if "0" in after and who == {-1: 0, 0: None, 1: 1}[sign(lead)]:
            order = before + "B" + after
            most = max(order.count("0"), order.count("1")) + 1
            rest = ("0" * (most - order.count("0")), "1" * (most - order.count("1")))
            found.append(order + "".join(rest))
    return found


def apart(order):
    """The first of the order's steps in which the batches differ, as measured."""
    pair = Pair(*planted())
    pair.play("B01", user(0, A, LONG))
    first, second = (rank.batches for rank in pair.ranks)
    pair.play(order, user(1, B, LONG))
    steps = zip(first[1:], second[1:], strict=False)
    return next((step for step, (a, b) in enumerate(steps, 1) if a != b), None)


def apart_of(seed, who):
    measured = [[order, apart(order)] for order in orders(seed, who)]

    from answer import first_apart

    return [{"measured": step, "predicted": first_apart(order)} for order, step in measured]


def judged(got, what):
    for case in got:
        equal(case["predicted"], case["measured"], what)


def probe_the_first_step_when_rank_0_is_ahead(seed):
    return apart_of(seed, 0)


def judge_the_first_step_when_rank_0_is_ahead(seed, got):
    what = "first_apart, rank 0 ahead (rank 1 sees the message in an earlier step than rank 0 did)"
    judged(got, what)


def probe_the_first_step_when_rank_1_is_ahead(seed):
    return apart_of(seed, 1)


def judge_the_first_step_when_rank_1_is_ahead(seed, got):
    what = "first_apart, rank 1 ahead (rank 0 runs B already in a step that rank 1 did without it)"
    judged(got, what)


def probe_the_first_step_when_neither_is_ahead(seed):
    return apart_of(seed, None)


def judge_the_first_step_when_neither_is_ahead(seed, got):
    judged(got, "first_apart, neither ahead (both take B in the step of the same number)")


def messages_of(seed, overlap):
    """How many messages rank 0 really sends, with the chapter's own functions."""
    from minisgl.scheduler.io import SchedulerIOMixin as IO

    random, cases = Random(seed), []
    for _ in range(3):
        new, bad = random.randrange(3, 9), random.randrange(1, 4)
        pair = Pair(IO._recv_msg_multi_rank0, IO._recv_msg_multi_rank1, overlap)
        for msg in (user(0, A, new), *[b"\xc1"] * bad):
            pair.send(msg)
            pair.finish()
        cases.append([new, overlap, bad, pair.broadcast.sent])

    from answer import broadcasts

    return [{"measured": sent, "predicted": broadcasts(*case)} for *case, sent in cases]


def probe_messages_without_overlap(seed):
    return messages_of(seed, False)


def judge_messages_without_overlap(seed, got):
    judged(got, "broadcasts (a step that takes nothing sends one too, and so does a bad frame's)")


def probe_messages_with_overlap(seed):
    return messages_of(seed, True)


def judge_messages_with_overlap(seed, got):
    judged(got, "broadcasts with overlap (one more step only reads the last batch, and receives)")


def mended(overlap=False):
    from answer import receive_rank0, receive_rank1

    return Pair(receive_rank0, receive_rank1, overlap)


def same(got, what):
    """Both ranks have run the same batches, and none of rank 1's messages is left."""
    for case in got:
        first, second = case["batches"]
        truth(len(first) > 0, f"{what}: rank 0 has run batches", len(first))
        state = f"it stands after batch {len(second)}, and rank 0 has run {len(first)}"
        truth(not case["stands"], f"{what}: rank 1 ends its requests", state)
        equal(second, first, f"{what}: rank 1's batches")
        equal(case["unread"], 0, f"{what}: messages that rank 1 has not read")


def probe_steps_in_which_nothing_comes(seed):
    found = []
    for overlap in (False, True):
        pair = mended(overlap)
        pair.send(user(0, A, Random(seed).randrange(3, 9)))
        pair.finish()
        found.append(pair.found())
    return found


def judge_steps_in_which_nothing_comes(seed, got):
    same(got, "nothing comes in most steps (who waits for a message in each step has to get one)")


def probe_several_messages_in_one_step(seed):
    found = []
    for overlap in (False, True):
        pair = mended(overlap)
        count = Random(seed).randrange(2, 5)
        pair.send(*(user(uid, [uid + 1] * 3, 4 + uid) for uid in range(count)))
        pair.finish()
        found.append(pair.found())
    return found


def judge_several_messages_in_one_step(seed, got):
    same(got, "several messages in one step (all of them belong to the same step of rank 1)")


def lagging(seed):
    """Orders of steps, with two requests that arrive, in which rank 1 is never ahead."""
    random = Random(seed)
    for _ in range(4):
        order = "0" * random.randrange(2, 5)
        for _ in range(12):
            is_behind = order.count("1") < order.count("0")
            order += random.choice("01") if is_behind else "0"
        middle = random.randrange(2, len(order))
        yield order[:2] + "B" + order[2:middle] + "B" + order[middle:]


def shifted(seed, names="01"):
    """names: what the two ranks of the orders are called here."""
    found = []
    for order in lagging(seed):
        pair = mended()
        pair.send(user(0, A, 40))
        pair.play("01" + order.translate(str.maketrans("01", names)), user(1, B, 9), user(2, B, 3))
        pair.finish()
        found.append(pair.found())
    return found


def probe_rank_1_is_behind(seed):
    return shifted(seed)


def judge_rank_1_is_behind(seed, got):
    same(got, "rank 1 is behind (of the messages that are there, the later belong to later steps)")


def probe_rank_1_is_ahead(seed):
    return shifted(seed, names="10")


def judge_rank_1_is_ahead(seed, got):
    same(got, "rank 1 is ahead (no message yet is not the same as a message that says nothing)")


def life(seed, overlap):
    """Requests, aborts, bad frames and batches come while the ranks step in any order."""
    from minisgl.message import BatchBackendMsg

    random, pair = Random(seed), mended(overlap)
    for uid in range(12):
        prompt = [random.randrange(97) for _ in range(random.randrange(1, 9))]
        asked = user(uid, prompt, random.randrange(1, 12))
        pair.send(random.choice((asked, BatchBackendMsg([BatchBackendMsg([asked])]))))
        if random.random() < 0.4:
            pair.send(random.choice((b"\xc1", abort(random.randrange(uid + 1)))))
        pair.play("".join(random.choice("01") for _ in range(random.randrange(12))))
        if random.random() < 0.2:
            pair.finish(random.choice(("01", "10", "0011", "1")))
    pair.finish()
    return pair.found()


def probe_whole_lives(seed):
    return [life(2 * seed + i, overlap) for i, overlap in enumerate((False, True))]


def judge_whole_lives(seed, got):
    same(got, "whole lives (a wait that a bad frame ends is a step as any other)")
