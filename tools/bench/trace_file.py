"""Recorded traces as files: Chrome trace events, and how, on what and when they were recorded."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import torch

from bench import result
from figures.traces import LANES
from steplib.paths import write_atomically

TRACES = result.RESULTS / "traces"


def hardware(device: torch.device) -> str:
    """The GPU if the engine ran on one, then processor and versions."""
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    return gpu + result.hardware()


def write(
    name: str, command: str, events: list[dict[str, Any]], device: torch.device, **facts: Any
) -> Path:
    """Write the trace called name, an event a line; return its file. facts go into it as well."""
    head = {
        "command": command,
        "hardware": hardware(device),
        "date": datetime.date.today().isoformat(),
        **facts,
        "displayTimeUnit": "ms",
    }
    lines = ",\n    ".join(json.dumps(_rounded(event)) for event in events)
    start = json.dumps(head, indent=2).removesuffix("\n}")
    file = TRACES / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    write_atomically(file, f'{start},\n  "traceEvents": [\n    {lines}\n  ]\n}}\n')
    return file


def _rounded(event: dict[str, Any]) -> dict[str, Any]:
    """The event with its times in whole microseconds."""
    return {key: round(value) if key in ("ts", "dur") else value for key, value in event.items()}


def summary(events: list[dict[str, Any]]) -> str:
    """What the lanes did, a line each: mean milliseconds of each kind of span."""
    spans: dict[tuple[int, str], list[float]] = {}
    for event in events:
        if event["ph"] == "X":
            spans.setdefault((event["tid"], event["name"]), []).append(event["dur"] / 1e3)
    return "\n".join(
        f"  {LANES[lane]:11} {name:13} {len(times):3} spans, {sum(times) / len(times):7.3f} ms each"
        for (lane, name), times in spans.items()
    )
