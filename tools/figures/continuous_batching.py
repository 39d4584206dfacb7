"""Continuous batching, as chapter 07's scene ran it."""

from __future__ import annotations

from figures import step_grid, traces
from figures.svg import Drawing

DESC = """A grid: a row is one of four requests, a column one of 14 steps. Requests 0 and 1 come in
at step 1, and one prefill batch computes both prompts, 5 and 3 tokens. From step 2 on each decode
step computes one token of each running request. Request 2 comes in at step 4: its prompt is
computed at once, and the running requests pause for that step. Request 3 comes in at step 5, when
all three rows are taken, and waits. Request 1 has its last token in that step and leaves, so that
request 3's prompt is computed at step 6. Requests 3, 2 and 0 end at steps 11, 12 and 14. No request
waits for a whole batch to end."""

STATES = {
    "wait": "waits for a row",
    "prefill": "prompt (tokens)",
    "decode": "decode, one token",
    "pause": "pauses for a prompt",
}


def draw() -> Drawing:
    """The legend, the grid, and what each step took."""
    d = Drawing("Continuous batching over time", DESC, 720, 312)
    trace = traces.read("continuous")
    steps, width = trace.steps(), 37
    step_grid.legend(d, (24, 20), STATES, 172)
    step_grid.grid(d, 56, steps, [f"request {uid}" for uid in range(4)], width)
    d.text(24, 258, "device, ms", "s")
    for column, step in enumerate(steps):
        x = step_grid.LEFT + (column + 0.5) * width
        d.text(x, 258, f"{step.ms:.0f}", "s", "middle")
    d.text(24, 292, f"At most 3 requests run at once. {trace.place}", "s")
    return d
