"""A recorded run as a grid: a row is a request, a column a step, for two of the figures."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing, Point
from figures.traces import Step

LEFT, ROW = 124, 34
TONES = {"wait": "red", "prefill": "amber", "decode": "blue", "pause": "plain"}


def grid(d: Drawing, top: float, steps: Sequence[Step], names: Sequence[str], width: float) -> None:
    """Step numbers, then a row for each request; what it did is the cell's tone and its tokens."""
    d.text(24, top + 14, "step", "s")
    for column in range(len(steps)):
        d.text(LEFT + (column + 0.5) * width, top + 14, str(column + 1), "s", "middle")
    for uid, name in enumerate(names):
        y = top + 24 + uid * (ROW + 6)
        d.text(24, y + 22, name, "t")
        _row(d, (LEFT, y), steps, uid, width)


def legend(d: Drawing, at: Point, texts: dict[str, str], width: float) -> None:
    """A sample of each tone with its meaning, in a line."""
    for i, (state, text) in enumerate(texts.items()):
        x = at[0] + i * width
        d.cells((x, at[1]), [""], TONES[state], (18, 18))
        d.text(x + 26, at[1] + 14, text, "s")


def first_and_last(steps: Sequence[Step], uid: int) -> tuple[int, int]:
    """The first and the last step that computed something of request uid."""
    columns = [column for column, step in enumerate(steps) if uid in step.tokens]
    return columns[0], columns[-1]


def _row(d: Drawing, at: Point, steps: Sequence[Step], uid: int, width: float) -> None:
    arrival = next(column for column, step in enumerate(steps) if uid in step.arrived)
    first, last = first_and_last(steps, uid)
    for column in range(arrival, last + 1):
        step = steps[column]
        state = step.phase if uid in step.tokens else "wait" if column < first else "pause"
        label = step.tokens.get(uid, "")
        d.cells((at[0] + column * width, at[1]), [label], TONES[state], (width, ROW))
    end = at[0] + (last + 1) * width
    d.text(end + 5, at[1] + 21, "end", "s")
