"""Chapter 07: the recorder of what the scheduler and the device do when."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from pairs import equal, error_of, refused, truth
from stub_engine import stub_scheduler, user


def recorder() -> Any:
    from minisgl.utils.trace import TraceRecorder

    return TraceRecorder(torch.device("cpu"))


def plain(trace: Any) -> Any:
    """The events as a reader of JSON has them."""
    return json.loads(json.dumps(trace.events()))


def traced(**settings: Any) -> Any:
    """A scheduler with a recorder; two requests were served."""
    scheduler = stub_scheduler(**settings)
    scheduler.trace = recorder()
    scheduler.send(user(3, [1, 2, 3, 4], 3), user(1, [5], 2))
    scheduler.run()
    return scheduler


def probe_spans_lie_on_two_lanes_and_nest(seed):
    trace = recorder()
    with trace.scheduler("outer", batch=7):
        time.sleep(0.002)
        with trace.on_device(None, "inner", tokens={1: 2}):
            time.sleep(0.002)
        with trace.scheduler("later"):
            pass
    return [plain(trace), trace.events() == trace.events()]


def judge_spans_lie_on_two_lanes_and_nest(seed, got):
    names = [[e["args"]["name"], e["tid"], e["ph"]] for e in got[0][:2]]
    equal(names, [["scheduler", 1, "M"], ["device", 2, "M"]], "names of the lanes")
    outer, inner, later = got[0][2:]
    keys = ["args", "dur", "name", "ph", "pid", "tid", "ts"]
    equal([sorted(e) for e in (outer, inner, later)], [keys] * 3, "fields of a span")
    equal([[e["name"], e["tid"], e["ph"]] for e in (outer, inner, later)],
          [["outer", 1, "X"], ["inner", 2, "X"], ["later", 1, "X"]], "spans")  # fmt: skip
    equal([e["args"] for e in (outer, inner, later)], [{"batch": 7}, {"tokens": {"1": 2}}, {}],
          "what was noted with them")  # fmt: skip
    ends = [e["ts"] + e["dur"] for e in (outer, inner, later)]
    truth(0 <= outer["ts"] < inner["ts"], "the inner span begins later", got[0])
    truth(ends[1] <= later["ts"] and ends[2] <= ends[0], "one ends before the next", got[0])
    truth(inner["dur"] >= 1900 and outer["dur"] >= 3800, "durations in microseconds", got[0])
    equal(got[1], True, "the same events when asked again")


def probe_a_span_ends_where_its_block_fails(seed):
    trace = recorder()

    def failing() -> None:
        with trace.scheduler("read"):
            raise ValueError("no")

    error = error_of(failing)
    return [error, "dur" in trace.events()[-1]]


def judge_a_span_ends_where_its_block_fails(seed, got):
    refused(got[0], "the block's own error", "no", kind="ValueError")
    equal(got[1], True, "the span has an end")


def probe_a_saved_trace_is_json_for_the_viewers(seed):
    scheduler = traced()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        scheduler.trace.save(file)
        text = file.read_text(encoding="utf-8")
        scheduler.trace.save(str(file))
        same = text == file.read_text(encoding="utf-8")
    return [json.loads(text), plain(scheduler.trace), same]


def judge_a_saved_trace_is_json_for_the_viewers(seed, got):
    saved, events, same = got
    equal(sorted(saved), ["displayTimeUnit", "traceEvents"], "keys of the file")
    equal([saved["displayTimeUnit"], same], ["ms", True], "unit; the same when saved again")
    equal(saved["traceEvents"], events, "events in the file and in memory")


def probe_each_batch_leaves_a_span_with_its_tokens(seed):
    events = [e for e in plain(traced().trace) if e["ph"] == "X"]
    device = [[e["name"], e["args"]] for e in events if e["tid"] == 2]
    cpu = [e for e in events if e["tid"] == 1]
    names = sorted({e["name"] for e in cpu})
    launches = [e for e in cpu if e["name"] == "launch"]
    spans = [e for e in events if e["tid"] == 2]
    inside = [
        a["ts"] <= b["ts"] and b["ts"] + b["dur"] <= a["ts"] + a["dur"]
        for a, b in zip(launches, spans, strict=True)
    ]
    counts = {name: sum(e["name"] == name for e in cpu) for name in ("wait", "read")}
    return [device, names, inside, counts]


def judge_each_batch_leaves_a_span_with_its_tokens(seed, got):
    want = [["prefill", {"tokens": {"3": 4, "1": 1}}], ["decode", {"tokens": {"1": 1, "3": 1}}],
            ["decode", {"tokens": {"3": 1}}]]  # fmt: skip
    equal(got[0], want, "spans of the device: phase, and tokens by uid")
    equal(got[1], ["launch", "read", "schedule", "wait"], "what the scheduler does")
    equal(got[2], [True] * 3, "on a CPU the device works inside the launch")
    equal(got[3], {"wait": 3, "read": 3}, "spans of waiting and reading")


def probe_without_a_recorder_nothing_is_noted_and_all_runs(seed):
    from minisgl.utils.trace import scheduler_span

    scheduler = stub_scheduler()
    scheduler.send(user(1, [5], 2))
    replies, trace = scheduler.run()[1], recorder()
    with scheduler_span(None, "schedule") as nothing:
        pass
    with scheduler_span(trace, "schedule", step=4):
        pass
    last = trace.events()[-1]
    return [scheduler.trace is None, len(replies), nothing is None, last["name"], last["args"]]


def judge_without_a_recorder_nothing_is_noted_and_all_runs(seed, got):
    want = [True, 2, True, "schedule", {"step": 4}]
    equal(got, want, "no recorder, two tokens; a span that is not noted, and one that is")


class Clocked:
    """Stands for a CUDA event: each one that is recorded lies a millisecond after the last."""

    made: list[Clocked] = []

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing, "an event without a time"
        self.waits = 0

    def record(self, stream: object = None) -> None:
        self.at, self.stream = len(Clocked.made), stream
        Clocked.made.append(self)

    def synchronize(self) -> None:
        self.waits += 1

    def elapsed_time(self, other: Clocked) -> float:
        return float(other.at - self.at)


def probe_on_cuda_a_span_lies_between_two_events_of_the_stream(seed):
    from unittest import mock

    from minisgl.utils.trace import TraceRecorder

    Clocked.made = []
    with mock.patch.object(torch.cuda, "Event", Clocked):
        trace = TraceRecorder(torch.device("cuda"))
        for name in ("prefill", "decode"):
            with trace.on_device("a stream", name):
                pass
        waits = [event.waits for event in Clocked.made]
        spans = [[e["name"], e["ts"], e["dur"]] for e in trace.events()[2:]]
    return [waits, spans, [event.stream for event in Clocked.made]]


def judge_on_cuda_a_span_lies_between_two_events_of_the_stream(seed, got):
    equal(got[0], [1, 0, 0, 0, 0], "waits while recording: only for the first event of all")
    want = [["prefill", 1000.0, 1000.0], ["decode", 3000.0, 1000.0]]
    equal(got[1], want, "name, begin and duration in microseconds")
    equal(got[2], [None, *["a stream"] * 4], "the streams on which events were recorded")


def probe_times_count_in_microseconds_from_the_recorder_s_start(seed):
    from unittest import mock

    clock = iter((10.0, 12.0, 15.0, 16.0, 16.5))
    with mock.patch("minisgl.utils.trace.time.perf_counter", lambda: next(clock)):
        trace = recorder()
        with trace.scheduler("first"):
            pass
        with trace.on_device(None, "second"):
            pass
    return [[e["name"], e["ts"], e["dur"]] for e in trace.events()[2:]]


def judge_times_count_in_microseconds_from_the_recorder_s_start(seed, got):
    equal(got, [["first", 2e6, 3e6], ["second", 6e6, 5e5]], "name, begin and duration")


def probe_a_span_without_an_end_is_left_out(seed):
    trace = recorder()

    def failing() -> None:
        with trace.on_device(None, "broken"):
            raise ValueError("no")

    error = error_of(failing)
    with trace.scheduler("open"):
        with trace.on_device(None, "done"):
            pass
        during = [event["name"] for event in trace.events()[2:]]
        with TemporaryDirectory() as folder:
            trace.save(Path(folder) / "trace.json")
    return [error, during, [event["name"] for event in trace.events()[2:]]]


def judge_a_span_without_an_end_is_left_out(seed, got):
    refused(got[0], "the block's own error", "no", kind="ValueError")
    equal(got[1], ["done"], "spans while one is open and after one has failed on the device")
    equal(got[2], ["open", "done"], "spans when the open one has ended")


def probe_on_cuda_a_span_that_fails_is_left_out(seed):
    from unittest import mock

    from minisgl.utils.trace import TraceRecorder

    Clocked.made = []
    with mock.patch.object(torch.cuda, "Event", Clocked):
        trace = TraceRecorder(torch.device("cuda"))

        def failing() -> None:
            with trace.on_device("a stream", "broken"):
                raise ValueError("no")

        error = error_of(failing)
        with trace.on_device("a stream", "done"):
            pass
        return [error, [event["name"] for event in trace.events()[2:]]]


def judge_on_cuda_a_span_that_fails_is_left_out(seed, got):
    refused(got[0], "the block's own error", "no", kind="ValueError")
    equal(got[1], ["done"], "spans")
