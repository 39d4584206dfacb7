"""The recorded traces: whole, and read back by the figures as they were written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from bench import request_trace, trace_file  # noqa: E402
from figures import traces  # noqa: E402
from minisgl.message import (  # noqa: E402
    BatchTokenizerMsg,
    DetokenizeMsg,
    StatsMsg,
    StatsReply,
    UserReply,
)
from minisgl.utils.trace import TraceRecorder  # noqa: E402

NAMES = sorted(file.stem for file in traces.TRACES.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_trace_says_where_it_comes_from(name: str) -> None:
    data = json.loads((traces.TRACES / f"{name}.json").read_text(encoding="utf-8"))
    assert data["command"].startswith("python tools/bench/trace.py ")
    assert data["hardware"] and data["date"]
    spans = [event for event in data["traceEvents"] if event["ph"] == "X"]
    assert spans
    assert all(type(span[time]) is int for span in spans for time in ("ts", "dur"))


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_of_a_committed_trace_does_one_thing_at_a_time(name: str) -> None:
    spans = traces.read(name).spans
    for lane in traces.LANES.values():
        mine = [span for span in spans if span.lane == lane]
        for one, following in zip(mine, mine[1:], strict=False):
            # Start and length are rounded each, which makes 1 us.
            assert one.end <= following.start + 0.002, f"{one} reaches into {following}"


def test_the_timelines_show_the_same_batches() -> None:
    off, on = (
        [list(span.args["tokens"].values()) for span in trace.of("prefill", "decode")]
        for trace in map(traces.read, ("overlap-off", "overlap-on"))
    )
    assert off == on


def test_each_token_of_the_recorded_request_goes_from_process_to_process() -> None:
    trace = traces.read("request")
    ways = [trace.of(name) for name in ("send", "DetokenizeMsg", "UserReply", "take")]
    assert len(trace.of("prefill", "decode")) == len(ways[0]) > 1
    for way in zip(trace.of("prefill", "decode"), *ways, strict=True):
        # Each begins once the one before has begun to send; the client may be the quicker to note.
        assert [span.start for span in way] == sorted(span.start for span in way)
    assert "".join(take.args["text"] for take in ways[-1]).strip()


def test_a_process_is_watched_from_what_it_takes_to_what_it_gives(tmp_path: Path) -> None:
    lane = request_trace.Lane(tmp_path / "spans", "detokenizer")
    pack, unpack = (
        request_trace._watched(lambda msg: msg, lane.note, way) for way in ("out", "in")
    )
    stats = StatsMsg(0, 0, 0, 0, 1), StatsReply(0, 0, 0, 0, 1)
    pack(UserReply(0, "", True))  # for nothing that came in
    unpack(BatchTokenizerMsg([stats[0], DetokenizeMsg(1, 2, False)]))
    pack(stats[1])
    pack(UserReply(1, "a", False))
    (line,) = (tmp_path / "spans").read_text().splitlines()
    event = json.loads(line)
    assert traces.LANES[event["tid"]] == "detokenizer"
    assert (event["name"], event["args"]) == ("DetokenizeMsg", {"out": "UserReply"})
    assert event["dur"] > 0


def test_a_trace_is_read_back_as_it_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "TRACES", tmp_path)
    monkeypatch.setattr(traces, "TRACES", tmp_path)
    trace = TraceRecorder(torch.device("cpu"))
    for phase, tokens in (("prefill", {3: 5}), ("decode", {3: 1})):
        with trace.scheduler("receive", uids=[3] if phase == "prefill" else []):
            pass
        with trace.scheduler("launch"), trace.on_device(None, phase, tokens=tokens):
            pass
    trace_file.write("mine", "python mine.py", trace.events(), torch.device("cpu"), requests=1)
    read = traces.read("mine")
    steps = read.steps()
    assert [(step.phase, step.arrived, step.tokens) for step in steps] == [
        ("prefill", [3], {3: 5}),
        ("decode", [], {3: 1}),
    ]
    assert [span.number for span in read.of("prefill", "decode")] == [0, 1]
