"""Chapter 15: replies reach who waits for them, and what is closed leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

from pairs import close, equal, truth
from stub_frontend import error, left_over, reply, run, stub_frontend, trouble

NOTHING = [{}, {}, []]


async def texts(choices: Any) -> list[str]:
    """Each answer's text, once all are finished."""
    async for _ in choices.pieces():
        pass
    return [answer.joined().text for answer in choices.answers]


def choices(state: Any, *prompts: Any, n: int = 1, stops: tuple[str, ...] = ()) -> Any:
    from minisgl.core import SamplingParams
    from minisgl.server.frontend import Choices

    return Choices(state, prompts, [SamplingParams(seed=i) for i in range(n)], list(stops))


def metric(state: Any, name: str) -> float | None:
    """A number of the metrics; None when there is no such line."""
    for line in state.metrics.text().decode().splitlines():
        if line.startswith(f"minisgl_{name} "):
            return float(line.split()[-1])
    return None


def metrics(state: Any, *names: str) -> list[float | None]:
    return [metric(state, name) for name in names]


def probe_replies_reach_the_one_who_waits(seed):
    from minisgl.message import BatchFrontendMsg

    async def scene():
        async with (
            stub_frontend(lambda msg: []) as (state, queues),
            choices(state, "a") as one,
            choices(state, "b", "c", n=2) as many,
        ):
            waiting = [asyncio.create_task(texts(each)) for each in (one, many)]
            await queues.settle()
            inner = BatchFrontendMsg([reply(4, "four"), reply(99, "a stranger's")])
            await queues.say(
                reply(2, "two"),
                BatchFrontendMsg([reply(0, "zero", True), inner, reply(1, "one", True)]),
                *[reply(uid, "!", True) for uid in (4, 3, 2)],
            )
            got = [await each for each in waiting]
            sent = [[m.uid, m.text, m.sampling_params.seed] for m in queues.sent]
            return [got, sent, left_over(state)]

    return run(scene())


def judge_replies_reach_the_one_who_waits(seed, got):
    texts_, sent, left = got
    equal(texts_, [["zero"], ["one", "two!", "!", "four!"]], "texts of two requests")
    want = [[0, "a", 0], [1, "b", 0], [2, "b", 1], [3, "c", 0], [4, "c", 1]]
    equal(sent, want, "what was sent: uid, prompt, the seed of the choice")
    equal(left, NOTHING, "what is kept of finished requests")


def probe_frames_that_are_no_messages_are_skipped(seed):
    import logging

    from minisgl.message import MessageError
    from minisgl.utils.mp import FrameError

    async def scene():
        said: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logger = logging.getLogger("minisgl.server.frontend")
        logger.addHandler(handler)
        async with stub_frontend(lambda msg: []) as (state, queues), choices(state, "a") as one:
            wrong = [FrameError("a secret"), MessageError("a secret")]
            await queues.say(*wrong, reply(0, "sound", True))
            got = await texts(one)
        logger.removeHandler(handler)
        return [got, said]

    return run(scene())


def judge_frames_that_are_no_messages_are_skipped(seed, got):
    texts_, said = got
    equal(texts_, ["sound"], "the text behind two frames that are no messages")
    equal(len(said), 2, "lines of the log")
    truth("FrameError" in said[0] and "MessageError" in said[1], "the log names the error", said)
    truth("secret" not in "".join(said), "the log does not quote what came", said)


def probe_who_leaves_early_aborts_each_open_request_once(seed):
    async def scene():
        async with stub_frontend(lambda msg: []) as (state, queues):
            async with choices(state, "a", n=3) as some:
                await queues.say(reply(1, "one", True), reply(0, "zero"))
                _ = await anext(some.pieces())
            left = left_over(state)
            await queues.say(reply(0, "late", True), reply(2, "late", True))
            outcomes = metrics(
                state, *[f'requests_total{{outcome="{o}"}}' for o in ("aborted", "length")]
            )
            return [queues.sent_as()[3:], left, left_over(state), outcomes]

    return run(scene())


def judge_who_leaves_early_aborts_each_open_request_once(seed, got):
    sent, left, later, outcomes = got
    equal(sorted(sent), [["AbortMsg", 0], ["AbortMsg", 2]], "what is sent for requests left open")
    equal([left, later], [NOTHING, NOTHING], "what is kept, before and after late replies")
    equal(outcomes, [2.0, 1.0], "requests counted as aborted, and as ended")


def probe_what_cannot_be_sent_leaves_no_request_open(seed):
    from minisgl.utils.mp import FrameError

    async def scene():
        async with stub_frontend(lambda msg: []) as (state, queues):
            put = queues.put

            async def fails_at_the_second(msg):
                await put(msg)
                if getattr(msg, "text", None) is not None and msg.uid == 1:
                    raise FrameError("a message can't be packed")

            queues.put = fails_at_the_second
            try:
                async with choices(state, "a", n=3):
                    said = "it was sent"
            except FrameError as error:
                said = str(error)
            aborted = [uid for kind, uid in queues.sent_as() if kind == "AbortMsg"]
            return [said, left_over(state), sorted(aborted)]

    return run(scene())


def judge_what_cannot_be_sent_leaves_no_request_open(seed, got):
    said, left, aborted = got
    equal(said, "a message can't be packed", "the error")
    equal(left, NOTHING, "what is kept of requests that were not all sent")
    equal(aborted, [0, 1, 2], "requests that are aborted")


def probe_a_stop_string_aborts_its_request_only(seed):
    async def scene():
        async with stub_frontend(lambda msg: []) as (state, queues):
            async with choices(state, "a", n=2, stops=("END",)) as both:
                waiting = asyncio.create_task(texts(both))
                await queues.settle()
                await queues.say(reply(0, "xEN"), reply(1, "yEN"))
                await queues.say(reply(0, "D and more"), reply(0, "late", True))
                sent, still = queues.sent_as()[2:], sorted(state.ack_map)
                await queues.say(reply(1, "DIVE", True))
                got = await waiting
            reasons = [answer.finish_reason for answer in both.answers]
            outcomes = metrics(
                state, *[f'requests_total{{outcome="{o}"}}' for o in ("stop", "aborted")]
            )
            return [got, reasons, sent, still, queues.sent_as()[2:], outcomes]

    return run(scene())


def judge_a_stop_string_aborts_its_request_only(seed, got):
    texts_, reasons, sent, still, all_sent, outcomes = got
    equal(texts_, ["x", "y"], "texts up to the stop string")
    equal(reasons, ["stop", "stop"], "why they ended")
    equal(sent, [["AbortMsg", 0]], "what is sent once the first has its stop string")
    equal(still, [1], "requests that go on")
    equal(all_sent, [["AbortMsg", 0]], "a request that ended by itself is not aborted")
    equal(outcomes, [2.0, None], "requests counted as stopped, and as aborted")


def probe_a_refusal_is_400_and_a_failure_in_the_midst_500(seed):
    async def scene():
        async with stub_frontend(lambda msg: []) as (state, queues):
            found = []
            for early in ([], [reply(2, "a word")]):
                async with choices(state, "a", n=2) as some:
                    uid = min(some.open)
                    replies = [reply(uid, one.incremental_output) for one in early]
                    await queues.say(*replies, error(uid, "too long"))
                    found.append(await trouble(texts(some)))
            outcomes = metrics(
                state,
                *[f'requests_total{{outcome="{o}"}}' for o in ("refused", "failed", "aborted")],
            )
            return [found, queues.sent_as(), outcomes, left_over(state)]

    return run(scene())


def judge_a_refusal_is_400_and_a_failure_in_the_midst_500(seed, got):
    found, sent, outcomes, left = got
    equal(found, [[400, "too long", {}], [500, "too long", {}]], "status, sentence, headers")
    aborts = [each for each in sent if each[0] == "AbortMsg"]
    equal(aborts, [["AbortMsg", 1], ["AbortMsg", 3]], "the other choice of each is aborted")
    equal(outcomes, [1.0, 1.0, 2.0], "refused, failed and aborted requests")
    equal(left, NOTHING, "what is kept")


def probe_a_failure_wakes_all_who_wait(seed):
    async def scene():
        async with stub_frontend(lambda msg: []) as (state, queues):
            async with choices(state, "a") as one, choices(state, "b") as two:
                waiting = [asyncio.create_task(trouble(texts(each))) for each in (one, two)]
                await queues.settle()
                state.fail("the scheduler has died")
                state.fail("a later cause")
                found = [await each for each in waiting]
            found.append(await trouble(choices(state, "c").__aenter__()))
            state.shutdown()
            failed = metric(state, 'requests_total{outcome="failed"}')
            return [found, len(queues.sent), left_over(state), queues.is_closed, failed]

    return run(scene())


def judge_a_failure_wakes_all_who_wait(seed, got):
    found, sent, left, is_closed, failed = got
    equal(failed, 2.0, "requests that are counted as failed, not as left by their clients")
    equal(found, [[503, "the scheduler has died", {}]] * 3, "two that waited and one that comes")
    equal(sent, 2, "messages: two requests, and nothing once nobody may be there for it")
    equal(left, NOTHING, "what is kept")
    equal(is_closed, True, "the queues are closed at the end")


def probe_an_answer_must_begin_in_time_and_may_take_longer(seed):
    async def scene():
        async with stub_frontend(lambda msg: [], first_token_timeout=0.4) as (state, queues):
            async with choices(state, "a") as late:
                found = await trouble(texts(late))
            async with choices(state, "b") as slow:
                waiting = asyncio.create_task(texts(slow))
                await queues.settle()
                await queues.say(reply(1, "be"))
                await asyncio.sleep(0.6)
                await queues.say(reply(1, "gun", True))
                return [found, await waiting, queues.sent_as()[1]]

    return run(scene())


def judge_an_answer_must_begin_in_time_and_may_take_longer(seed, got):
    found, slow, abort = got
    equal(found[0], 503, "status when no answer begins")
    truth("within 0.4 s" in found[1], "the sentence names the limit", found[1])
    equal(found[2], {"Retry-After": "1"}, "headers")
    equal(slow, ["begun"], "an answer that has begun may take longer")
    equal(abort, ["AbortMsg", 0], "the late one is aborted")


def probe_no_more_may_wait_than_the_limit(seed):
    async def scene():
        async with stub_frontend(lambda msg: [], max_waiting=3) as (state, queues):
            found = [await trouble(choices(state, "a", n=4).__aenter__())]
            async with choices(state, "a", n=2), choices(state, "b"):
                found.append(await trouble(choices(state, "c").__aenter__()))
                await queues.say(reply(0, "begun"))
                found.append(await trouble(choices(state, "c", n=2).__aenter__()))
                async with choices(state, "c"):
                    found.append(sorted(state.waiting))
            async with choices(state, "c", n=3):
                found.append(len(state.waiting))
            state.is_stopping = True
            found.append(await trouble(choices(state, "d").__aenter__()))
            return [found, len(state.ack_map)]

    return run(scene())


def judge_no_more_may_wait_than_the_limit(seed, got):
    (never, full, still_full, waiting, as_many, stopping), left = got
    equal(as_many, 3, "as many at once as may wait")
    equal([never[0], never[2]], [400, {}], "more at once than may ever wait")
    truth("only 3 may wait" in never[1], "the sentence names the limit", never[1])
    for each, count in ((full, 3), (still_full, 2)):
        equal([each[0], each[2]], [429, {"Retry-After": "1"}], "status and headers of one too many")
        truth(f"{count} requests are waiting" in each[1], "it says how many wait", each[1])
    equal(waiting, [1, 2, 3], "one that has begun waits no more")
    equal(stopping[:2], [503, "the server is shutting down"], "while the server stops")
    equal(left, 0, "requests that are left")


def probe_metrics_count_what_was_answered(seed):
    from minisgl.message import StatsReply

    async def scene():
        async with stub_frontend(lambda msg: []) as (state, queues):
            clock = mock.Mock(monotonic=iter([10.0, 10.3, 10.5, 10.504, 11.0]).__next__)
            with mock.patch("minisgl.server.metrics.time", clock):
                async with choices(state, "a") as one:
                    first = reply(0, "a", prompt_tokens=8, cached_tokens=2)
                    for each in (first, reply(0, "b"), reply(0, "c")):
                        queues.coming.put_nowait(each)
                        await queues.settle()
                        _ = await anext(one.pieces())
                    end = reply(0, "", True, num_tokens=0, at_end=True)
                    await queues.say(end)
                    await texts(one)
            state.metrics.take_prompt(8, 6)
            await queues.say(StatsReply(0, 0, 0, 0, 0), StatsReply(3, 4, 25, 50, 100))
            names = ("prompt_tokens", "cached_prompt_tokens", "output_tokens")
            times = ("time_to_first_token_seconds", "inter_token_latency_seconds")
            return {
                "tokens": metrics(state, *[f"{name}_total" for name in names]),
                "stopped": metric(state, 'requests_total{outcome="stop"}'),
                "counts": metrics(state, *[f"{name}_count" for name in times]),
                "sums": metrics(state, *[f"{name}_sum" for name in times]),
                "requests": metrics(state, "running_requests", "waiting_requests"),
                "shares": metrics(state, "kv_used_ratio", "kv_cached_ratio", "cache_hit_rate"),
                "fast": metric(state, 'inter_token_latency_seconds_bucket{le="0.005"}'),
                "first": metrics(
                    state,
                    *(f'{times[0]}_bucket{{le="{le}"}}' for le in (0.01, 0.025, 0.05, 0.25, 0.5)),
                ),
            }

    return run(scene())


def judge_metrics_count_what_was_answered(seed, got):
    equal(got["tokens"], [16.0, 8.0, 3.0], "tokens of prompts, cached ones, and of answers")
    equal(got["stopped"], 1.0, "answers that ended by an end id")
    equal(got["counts"], [1.0, 2.0], "times noted: first tokens, and between two; no end id")
    close(got["sums"], [0.3, 0.204], 1e-6, "seconds to the first token, and between tokens")
    equal(got["requests"], [3.0, 4.0], "running and waiting requests, as the scheduler says")
    close(got["shares"], [0.25, 0.5, 0.5], 1e-9, "use of the pool, kept share, hit rate")
    equal(got["fast"], 1.0, "gaps of at most 5 ms")
    equal(got["first"], [0.0] * 4 + [1.0], "first tokens after at most 10, 25, 50, 250, 500 ms")
