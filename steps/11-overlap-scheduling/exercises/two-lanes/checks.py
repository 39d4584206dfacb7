"""Runs the real scheduler by a clock of its own, and compares the reader's predictions with it."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

from pairs import equal
from stub_engine import Done, answer, stub_scheduler, user

END = 5


def prompt_with_end(random, end_at):
    """A prompt whose token number end_at is the first end id."""
    while True:
        prompt = [random.randrange(97) for _ in range(4)]
        tokens = answer(prompt, end_at)
        if tokens.index(END) + 1 == end_at if END in tokens else False:
            return prompt


def dropped(prompt, max_tokens, **params):
    """Rows that the real scheduler launches for a request, less the tokens that it sends."""
    scheduler = stub_scheduler(overlap=True, eos=(END,))
    scheduler.send(user(0, prompt, max_tokens, **params))
    scheduler.run()
    return sum(len(rows) for _, rows in scheduler.batches) - len(scheduler.tokens(0))


def rows(seed, cases):
    """For each (max_tokens, end_at) what is dropped, and what the reader says."""
    random = Random(seed)
    found = []
    for most, end_at in cases:
        prompt = prompt_with_end(random, end_at) if end_at else [1, 2, 3]
        measured = dropped(prompt, most, ignore_eos=end_at is None)
        found.append({"case": f"max_tokens {most}, end_at {end_at}", "measured": measured})
    from answer import rows_for_nobody

    for case, (most, end_at) in zip(found, cases, strict=True):
        case["predicted"] = rows_for_nobody(most, end_at)
    return found


def compare(got, what):
    for case in got:
        equal(case["predicted"], case["measured"], f"{case['case']} ({what})")


def probe_rows_of_requests_without_an_end_id(seed):
    random = Random(seed)
    return rows(seed, [(random.randrange(1, 12), None) for _ in range(3)] + [(4, 6)])


def judge_rows_of_requests_without_an_end_id(seed, got):
    compare(got, "a length is known in advance, so no step is launched behind the last one")


def probe_rows_behind_an_end_id(seed):
    random = Random(seed)
    ends = [1, random.randrange(2, 5), random.randrange(5, 8)]
    return rows(seed, [(end + random.randrange(1, 5), end) for end in ends])


def judge_rows_behind_an_end_id(seed, got):
    compare(got, "the next step is on its way before anyone has read that this token is an end id")


def probe_rows_when_the_last_token_is_an_end_id(seed):
    end = Random(seed).randrange(2, 7)
    return rows(seed, [(end, end), (1, 1)])


def judge_rows_when_the_last_token_is_an_end_id(seed, got):
    compare(got, "behind the last token that max_tokens allows nothing is launched, end id or not")


def flag(max_tokens, overlap):
    """Which token carries the flag in the real scheduler, when it asks can_decode."""
    from minisgl.core import Req

    scheduler = stub_scheduler(overlap=overlap)
    scheduler.send(user(0, [1, 2, 3], max_tokens))
    with patch.object(Req, "is_complete", property(lambda req: not req.can_decode)):
        try:
            for _ in range(2 * max_tokens + 4):
                scheduler.step()
        except Done:
            pass
    return [finished for _, finished in scheduler.replies[0]].index(True) + 1


def flags(cases):
    """For each (max_tokens, overlap) the number of the flagged token."""
    found = [
        {"case": f"max_tokens {most}, overlap {overlap}", "measured": flag(most, overlap)}
        for most, overlap in cases
    ]
    from answer import first_flag

    for case, (most, overlap) in zip(found, cases, strict=True):
        case["predicted"] = first_flag(most, overlap)
    return found


def probe_the_flag_without_overlap(seed):
    return flags([(1, False), (Random(seed).randrange(2, 9), False)])


def judge_the_flag_without_overlap(seed, got):
    compare(got, "no launch lies between a batch and its reading, so device_len is up to date")


def probe_the_flag_with_overlap(seed):
    return flags([(Random(seed).randrange(3, 9), True), (2, True)])


def judge_the_flag_with_overlap(seed, got):
    compare(got, "one more launch has counted device_len up by the time a token is read")


def probe_the_flag_of_a_single_token(seed):
    return flags([(1, True)])


def judge_the_flag_of_a_single_token(seed, got):
    compare(got, "there is no second launch that could have counted, and no token number 0")


def timed(batches):
    """A scheduler in which each part of a batch takes its time by a clock of its own.

    passes: when each batch begins on the device and when it is done.
    """
    from minisgl.scheduler import Scheduler

    class Timed(Scheduler):
        clock, passes, read = 0, (), 0

        def _schedule_next_batch(self):
            made = super()._schedule_next_batch()
            if made is not None:
                self.clock += batches[len(self.passes)]["schedule"]
            return made

        def _forward(self, forward_input):
            costs = batches[len(self.passes)]
            output = super()._forward(forward_input)
            self.clock += costs["launch"]
            begin = max(self.clock, self.passes[-1][1] if self.passes else 0)
            end = begin + costs["device"]
            self.passes = (*self.passes, (begin, end))
            wait = output.copy_done_event.synchronize

            def synchronize():
                self.clock = max(self.clock, end)
                wait()

            output.copy_done_event.synchronize = synchronize
            return output

        def _take_token(self, *args):
            self.clock += batches[self.read]["read"]
            self.read += 1
            super()._take_token(*args)

    return Timed


def idle(batches, overlap):
    """How long the device of the real scheduler has nothing to do."""
    scheduler = stub_scheduler(overlap=overlap, base=timed(batches))
    scheduler.send(user(0, [1, 2, 3], len(batches)))
    scheduler.run()
    passes = scheduler.passes
    return sum(begin - end for (_, end), (begin, _) in zip(passes, passes[1:], strict=False))


def drawn(seed, schedule, device, read, count=4):
    """Batches whose parts lie in the given ranges, in microseconds."""
    random = Random(seed)
    ranges = {"schedule": schedule, "launch": (5, 30), "device": device, "read": read}
    return [{k: random.randrange(*r) for k, r in ranges.items()} for _ in range(count)]


def told(batches):
    """The batches' times in the order of the statement's table, as in 30/10/100/20."""
    return "batches " + " ".join("/".join(map(str, batch.values())) for batch in batches)


def lanes(cases, overlap):
    """For each case how long the device waits, and what the reader says."""
    found = [{"case": told(case), "measured": idle(case, overlap)} for case in cases]
    from answer import device_idle

    for made, case in zip(found, cases, strict=True):
        made["predicted"] = device_idle([dict(batch) for batch in case], overlap)
    return found


def probe_idle_without_overlap(seed):
    return lanes([drawn(seed + i, (20, 90), (30, 300), (10, 80)) for i in range(2)], False)


def judge_idle_without_overlap(seed, got):
    compare(got, "the device waits while the last batch is read and the next is put together")


def probe_idle_with_overlap_and_long_passes(seed):
    return lanes([drawn(seed + i, (20, 60), (200, 400), (10, 60)) for i in range(2)], True)


def judge_idle_with_overlap_and_long_passes(seed, got):
    compare(got, "the next batch is queued behind this one before this one is read")


def probe_idle_with_overlap_and_short_passes(seed):
    return lanes([drawn(seed + i, (90, 160), (30, 80), (0, 1)) for i in range(2)], True)


def judge_idle_with_overlap_and_short_passes(seed, got):
    compare(got, "where the CPU's part is the longer one the device waits all the same")


def probe_idle_with_overlap_and_slow_reading(seed):
    return lanes([drawn(seed + i, (20, 60), (30, 60), (200, 300)) for i in range(2)], True)


def judge_idle_with_overlap_and_slow_reading(seed, got):
    compare(got, "between two launches the CPU also reads the batch before the one that runs")


def probe_idle_with_overlap_and_uneven_passes(seed):
    random = Random(seed)
    cases = [drawn(seed + i, (20, 60), (30, 60), (10, 40), 9) for i in range(2)]
    for case in cases:
        for i in range(1, 8, 3):  # a long pass, and behind the next one a slow schedule
            case[i]["device"] = random.randrange(400, 600)
            case[i + 1]["schedule"] += random.randrange(100, 200)
    return lanes(cases, True)


def judge_idle_with_overlap_and_uneven_passes(seed, got):
    compare(got, "one batch may be queued behind the one that runs, and no third")
