"""What scheduler and device did when, without and with overlap, to one scale."""

from __future__ import annotations

from collections.abc import Iterator

from figures import traces
from figures.svg import Drawing, text_width
from figures.traces import Span, Trace

DESC = """Two recorded timelines of the same decode steps, one above the other, with one time axis
in milliseconds; each has a lane for the scheduler and one for the device. Without overlap the
scheduler schedules and launches a batch, waits for it and reads its tokens before it begins with
the next, and between two batches the device has nothing to do. With overlap it launches the next
batch while the device still computes the last one, then waits for that one and reads it, so that
on the device one batch follows the other without a gap."""

TONES = {
    "schedule": "violet",
    "launch": "amber",
    "wait": "plain",
    "read": "green",
    "decode": "blue",
    "idle": "red",
}
LEFT, RIGHT, LANE = 106, 700, 36
FIRST, BATCHES = 4, 4
"""The first batch that is shown, and how many are."""


def draw() -> Drawing:
    """Legend, two timelines, axis."""
    d = Drawing("The timeline without and with overlap", DESC, 720, 344)
    off, on = traces.read("overlap-off"), traces.read("overlap-on")
    length = max(_window(trace)[1] - _window(trace)[0] for trace in (off, on))
    for i, (name, tone) in enumerate(TONES.items()):
        d.cells((24 + i * 112, 18), [""], tone, (16, 16))
        d.text(46 + i * 112, 31, "a batch" if name == "decode" else name, "s")
    _timeline(d, 66, "Overlap off", off, length)
    _timeline(d, 180, "Overlap on", on, length)
    _axis(d, 282, length)
    d.text(24, 328, on.place, "s")
    return d


def _window(trace: Trace) -> tuple[float, float]:
    """Where the shown part begins, with a launch, and where its last batch is done."""
    device = trace.of("prefill", "decode")
    launches = trace.of("launch")
    return launches[FIRST].start, device[FIRST + BATCHES - 1].end


def _timeline(d: Drawing, y: float, title: str, trace: Trace, length: float) -> None:
    begin, _ = _window(trace)
    lanes = {"scheduler": y + 14, "device": y + 14 + LANE + 8}
    d.text(24, y + 4, title, "b")
    share, step = _idle(trace)
    text = f"of {step:.1f} ms from batch to batch the device is idle for {share:.0%}"
    d.text(RIGHT, y + 4, text, "s", "end")
    for lane, top in lanes.items():
        d.text(24, top + 23, lane, "s")
    for span in (*trace.spans, *_gaps(trace)):
        left, right = max(span.start - begin, 0), min(span.end - begin, length)
        if right > left:
            scale = (RIGHT - LEFT) / length
            _span(d, lanes[span.lane], LEFT + left * scale, LEFT + right * scale, span)


def _idle(trace: Trace) -> tuple[float, float]:
    """The idle share of the device over all decode steps, and their mean length in ms."""
    batches = trace.of("decode")
    whole = batches[-1].start - batches[0].start
    gaps = sum(gap.end - gap.start for gap in _gaps(trace) if gap.start > batches[0].start)
    return gaps / whole, whole / (len(batches) - 1)


def _gaps(trace: Trace) -> Iterator[Span]:
    """The times between one batch and the next."""
    device = trace.of("prefill", "decode")
    for last, following in zip(device, device[1:], strict=False):
        yield Span("device", "idle", last.number, last.end, following.start, {})


def _span(d: Drawing, y: float, left: float, right: float, span: Span) -> None:
    d.bar((left, y), (right - left, LANE), TONES.get(span.name, "plain"))
    number = str(span.number + 1)
    labels = ["idle"] if span.name == "idle" else [f"{span.name} {number}", number]
    if span.lane == "device" and span.name != "idle":
        labels[0] = f"batch {number}"
    for label in labels:
        if text_width(label, "s") <= right - left - 4 and span.name != "schedule":
            return d.text((left + right) / 2, y + 22, label, "s", "middle")


def _axis(d: Drawing, y: float, length: float) -> None:
    step = next(step for step in (0.5, 1, 2, 5, 10, 20, 50, 100, 200) if length / step <= 12)
    d.line((LEFT, y), (RIGHT, y))
    for i in range(int(length / step) + 1):
        x = LEFT + i * step * (RIGHT - LEFT) / length
        d.line((x, y), (x, y + 5))
        d.text(x, y + 19, f"{i * step:g}", "s", "middle")
    d.text(24, y + 4, "time, ms", "s")
