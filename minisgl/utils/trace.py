"""An optional recorder of what the scheduler and the device do when, as Chrome trace events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

LANES = {"scheduler": 1, "device": 2}


class TraceRecorder:
    """Collects spans on two lanes; save() writes a file that Perfetto and chrome://tracing open.

    On CUDA a device span lies between two timed events of the stream, which are read when the
    trace is saved, so that recording never waits. On a CPU the device works inside the call.
    """

    def __init__(self, device: torch.device) -> None:
        self._events: list[dict[str, Any]] = []
        self._timed: list[tuple[dict[str, Any], torch.cuda.Event, torch.cuda.Event]] = []
        self._base = _timed_event(None) if device.type == "cuda" else None
        if self._base is not None:
            self._base.synchronize()
        self._start = time.perf_counter()

    @contextmanager
    def scheduler(self, name: str, **args: Any) -> Iterator[None]:
        """Record what the CPU does inside the with block."""
        event = self._new_event("scheduler", name, args)
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._set_time(event, begin)

    @contextmanager
    def on_device(self, stream: torch.cuda.Stream | None, name: str, **args: Any) -> Iterator[None]:
        """Record what the device does of the work that the with block queues on stream."""
        event = self._new_event("device", name, args)
        if stream is not None:
            first = _timed_event(stream)
            yield
            self._timed.append((event, first, _timed_event(stream)))
            return
        begin = time.perf_counter()
        yield
        self._set_time(event, begin)

    def events(self) -> list[dict[str, Any]]:
        """Return the trace events, times in microseconds since the recorder was made.

        A span whose block hasn't ended, or ended by an exception on the device, is left out.
        """
        for event, first, last in self._timed:
            last.synchronize()
            assert self._base is not None
            event["ts"] = self._base.elapsed_time(first) * 1e3
            event["dur"] = first.elapsed_time(last) * 1e3
        self._timed.clear()
        names = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
            for name, lane in LANES.items()
        ]
        return names + [event for event in self._events if "ts" in event]

    def save(self, path: str | Path) -> None:
        """Write the trace as JSON."""
        text = json.dumps({"traceEvents": self.events(), "displayTimeUnit": "ms"})
        Path(path).write_text(text, encoding="utf-8")

    def _set_time(self, event: dict[str, Any], begin: float) -> None:
        event["ts"] = (begin - self._start) * 1e6
        event["dur"] = (time.perf_counter() - begin) * 1e6

    def _new_event(self, lane: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
        event = {"ph": "X", "name": name, "pid": 1, "tid": LANES[lane], "args": args}
        self._events.append(event)
        return event


def _timed_event(stream: torch.cuda.Stream | None) -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event


def scheduler_span(
    trace: TraceRecorder | None, name: str, **args: Any
) -> AbstractContextManager[None]:
    """Return a with block that is recorded if there is a recorder."""
    return nullcontext() if trace is None else trace.scheduler(name, **args)
