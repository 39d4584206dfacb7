"""A long prompt in chunks, as chapter 10's scene ran it."""

from __future__ import annotations

from collections.abc import Sequence

from figures import step_grid, traces
from figures.svg import Drawing
from figures.traces import Step

DESC = """Above, a grid: a row is a request, a column one of 14 steps. Request 0 is computed at
step 1 and decodes from step 2 on. Request 1, whose prompt has 36 tokens, comes in at step 3. A
step computes at most 10 tokens of prompts, so its prompt is computed at steps 3, 5, 7 and 9, as 10,
10, 10 and 6 tokens; at steps 4, 6 and 8, between the chunks, request 0 gets its next token. From
step 10 on both decode together. Below, the prompt as a bar of 36 positions: the chunks of steps 3,
5, 7 and 9 cover 0 to 10, 10 to 20, 20 to 30 and 30 to 36. Only the last one gives a token."""

STATES = {
    "prefill": "prompt (tokens)",
    "decode": "decode, one token",
    "pause": "waits for one step",
}
WIDTH, BAR = 37, 198


def draw() -> Drawing:
    """The grid, and below it the long prompt, each chunk under its step."""
    d = Drawing("A long prompt in chunks", DESC, 720, 306)
    trace = traces.read("chunks")
    steps = trace.steps()
    step_grid.legend(d, (24, 20), STATES, 200)
    step_grid.grid(d, 56, steps, ["request 0", "request 1"], WIDTH)
    _prompt(d, steps)
    d.text(24, 288, f"At most 10 tokens of prompts a step. {trace.place}", "s")
    return d


def _prompt(d: Drawing, steps: Sequence[Step]) -> None:
    chunks = [(i, step.tokens[1]) for i, step in enumerate(steps) if step.phase == "prefill" and i]
    total, begin = sum(tokens for _, tokens in chunks), 0
    scale = 14 * WIDTH / total
    d.text(24, BAR + 12, "prompt of", "t")
    d.text(24, BAR + 30, "request 1", "t")
    for column, tokens in chunks:
        x, span = step_grid.LEFT + begin * scale, tokens * scale
        text = f"{begin}:{begin + tokens}"
        d.box((x, BAR), (span, 36), [(text, "m")], "amber", 0)
        cell = step_grid.LEFT + (column + 0.5) * WIDTH
        d.arrow((cell, 154), (x + span / 2, BAR - 2))
        is_last = begin + tokens == total
        d.text(
            x + span / 2, BAR + 54, "gives a token" if is_last else "K and V only", "s", "middle"
        )
        begin += tokens
