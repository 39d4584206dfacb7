"""One chat on its way through the processes, as it was recorded: whole, and twice enlarged."""

from __future__ import annotations

from dataclasses import dataclass

from figures import traces
from figures.svg import Drawing, text_width
from figures.traces import Span, Trace

DESC = """A recorded chat with five lanes: client, API server, the process that tokenizes and
detokenizes, scheduler, device. Above, the whole answer: the device first computes the prompt, then
one batch for each token, and the other lanes have something to do for a moment before and after
each. In the middle the first milliseconds: the client's request goes to the API server, which
validates it and sends a TokenizeMsg; the tokenizer makes token ids of it and sends a UserMsg; the
scheduler receives it, schedules a batch and launches it on the device. Below, the way of one token
back: the scheduler reads it and sends a DetokenizeMsg, then schedules and launches the next batch;
meanwhile the detokenizer makes text of it and sends a UserReply, and the API server sends the
client a piece of the stream. That piece has arrived long before the next batch is done."""

NAMES = {
    "client": "client",
    "API server": "API server",
    "detokenizer": "(de)tokenizer",
    "scheduler": "scheduler",
    "device": "device",
}
TONES = dict(zip(NAMES, ("plain", "blue", "amber", "green", "violet"), strict=True))
LABELS = {
    "request": "validate",
    "TokenizeMsg": "tokenize",
    "DetokenizeMsg": "text",
    "UserReply": "reply",
}
LEFT, RIGHT, BAR = 116, 632, 22
TOKEN = 3
"""The token whose way back is shown, from 0."""


@dataclass(frozen=True)
class View:
    """A part of the trace, in ms, with its lanes from top downwards, pitch px apart."""

    top: float
    pitch: float
    begin: float
    end: float

    def x(self, time: float) -> float:
        """Where a time stands; what is outside stands at the edge."""
        inside = min(max(time, self.begin), self.end) - self.begin
        return LEFT + inside * (RIGHT - LEFT) / (self.end - self.begin)

    def y(self, lane: str) -> float:
        """Where a lane's bars begin."""
        return self.top + list(NAMES).index(lane) * self.pitch

    @property
    def bottom(self) -> float:
        """Where the last lane ends."""
        return self.y("device") + BAR


def draw() -> Drawing:
    """The whole answer, its beginning, and one token's way back."""
    d = Drawing("The life of a request", DESC, 650, 760)
    trace = traces.read("request")
    takes, device = trace.of("take"), trace.of("prefill", "decode")
    _whole(d, View(62, 28, 0, takes[-1].end + 4), trace)
    d.text(18, 256, "From the question to the first batch", "b")
    _enlarged(d, View(270, 38, 0, device[0].start + 0.9), trace, ("request", "TokenizeMsg"), 0)
    d.text(18, 494, f"The way back of token {TOKEN + 1}, “{_text(takes[TOKEN])}”", "b")
    view = View(508, 38, device[TOKEN].end - 0.3, takes[TOKEN].end + 0.45)
    _enlarged(d, view, trace, ("DetokenizeMsg", "UserReply"), TOKEN)
    d.text(18, view.bottom + 48, f"{trace.place} SmolLM2 135M, without overlap.", "s")
    d.text(18, view.bottom + 66, "On a CPU a launch returns when its batch is done.", "s")
    return d


def _text(take: Span) -> str:
    return str(take.args["text"]).strip()


def _whole(d: Drawing, view: View, trace: Trace) -> None:
    d.text(18, 26, "The whole answer", "b")
    _bars(d, view, trace)
    for take in trace.of("take"):
        d.text(
            view.x(take.start),
            50,
            _text(take) or "end",
            "s",
            "end" if not _text(take) else "middle",
        )
    _axis(d, view)


def _enlarged(d: Drawing, view: View, trace: Trace, kinds: tuple[str, str], number: int) -> None:
    """A view with an arrow for each message that a span of one of the kinds gets or gives."""
    _bars(d, view, trace)
    first, second = (trace.of(kind)[number] for kind in kinds)
    if number == 0:
        before, after = trace.of("ask")[0], trace.of("receive")[0]
    else:
        before, after = trace.of("send")[number], trace.of("take")[number]
    for giver, taker in ((before, first), (first, second), (second, after)):
        message = giver.args.get("out") or giver.args["message"]
        _message(d, view, giver, taker, f"HTTP {message}" if message.islower() else message)
    narrow = [span for span in trace.of("receive", "read", "send") if _is_within(view, span)]
    names = ", ".join(span.name for span in narrow)
    d.text(view.x(narrow[0].start), view.y("scheduler") + BAR + 13, names, "s")
    _axis(d, view)


def _is_within(view: View, span: Span) -> bool:
    return span.start >= view.begin and span.end <= view.end


def _bars(d: Drawing, view: View, trace: Trace) -> None:
    for lane, name in NAMES.items():
        d.text(18, view.y(lane) + 16, name, "s")
        d.line((LEFT, view.y(lane) + BAR), (RIGHT, view.y(lane) + BAR))
    for span in trace.spans:
        if span.end >= view.begin and span.start <= view.end:
            left, right = view.x(span.start), view.x(span.end)
            d.bar((left, view.y(span.lane)), (max(right - left, 2), BAR), TONES[span.lane])
            label = LABELS.get(span.name, span.name)
            if text_width(label, "s") <= right - left - 4:
                d.text((left + right) / 2, view.y(span.lane) + 16, label, "s", "middle")


def _message(d: Drawing, view: View, giver: Span, taker: Span, name: str) -> None:
    """An arrow from the end of one span to the start of another, with its name to the right."""
    down = view.y(taker.lane) > view.y(giver.lane)
    y = view.y(giver.lane) + (BAR if down else 0), view.y(taker.lane) + (0 if down else BAR)
    x = view.x(giver.end), view.x(taker.start)
    d.arrow((x[0], y[0]), (x[1], y[1]))
    d.text(max(x) + 8, sum(y) / 2 + 4.5, name, "m")


def _axis(d: Drawing, view: View) -> None:
    step = next(s for s in (0.5, 5, 20, 100, 500, 5000) if (view.end - view.begin) / s <= 11)
    d.text(18, view.bottom + 20, "time, ms", "s")
    for i in range(int(view.begin / step) + 1, int(view.end / step) + 1):
        x = view.x(i * step)
        d.line((x, view.bottom), (x, view.bottom + 6))
        d.text(x, view.bottom + 20, f"{i * step:g}", "s", "middle")
