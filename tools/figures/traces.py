"""The committed traces, read for the figures that are drawn from them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRACES = Path(__file__).resolve().parents[1] / "bench" / "results" / "traces"
LANES = {1: "scheduler", 2: "device", 3: "client", 4: "API server", 5: "detokenizer"}


@dataclass(frozen=True)
class Span:
    """What a lane did from start to end, in ms. number counts the spans of a kind from 0.

    On the device prefill and decode are one kind, so that equal numbers mean one batch.
    """

    lane: str
    name: str
    number: int
    start: float
    end: float
    args: dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One batch, and the requests that came in just before it. tokens: computed of each request."""

    phase: str
    arrived: list[int]
    tokens: dict[int, int]
    ms: float


@dataclass(frozen=True)
class Trace:
    """A recorded run: where it ran, and its spans in the order in which they began."""

    hardware: str
    date: str
    spans: list[Span]

    def of(self, *names: str) -> list[Span]:
        """The spans with these names."""
        return [span for span in self.spans if span.name in names]

    def steps(self) -> list[Step]:
        """The run as a list of batches, for traces without overlap."""
        steps, arrived = [], []
        for span in self.spans:
            if span.name == "receive":
                arrived += span.args["uids"]
            elif span.lane == "device":
                tokens = {int(uid): count for uid, count in span.args["tokens"].items()}
                steps.append(Step(span.name, arrived, tokens, span.end - span.start))
                arrived = []
        return steps

    @property
    def place(self) -> str:
        """The machine, short enough for a figure's foot."""
        gpu_or_cpu, *_ = self.hardware.split(", torch")
        return f"Recorded on {gpu_or_cpu}, {self.date}."


def read(name: str) -> Trace:
    """The trace in tools/bench/results/traces/NAME.json."""
    data = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    events = sorted((e for e in data["traceEvents"] if e["ph"] == "X"), key=lambda e: e["ts"])
    seen: Counter[str] = Counter()
    spans = []
    for event in events:
        lane, name = LANES[event["tid"]], event["name"]
        kind = lane if lane == "device" else name
        start, end = event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3
        spans.append(Span(lane, name, seen[kind], start, end, event["args"]))
        seen[kind] += 1
    return Trace(data["hardware"], data["date"], spans)
