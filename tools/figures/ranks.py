"""Two ranks step by step: one message from rank 0 to rank 1 in each step."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Six steps of two ranks. Requests come to rank 0 alone: A before step 1, B before step 3,
an abort of A before step 5. In each step rank 0 sends rank 1 one message, a list of what has come
in: A, nothing, B, nothing, the abort. Both ranks take the list in the same step and so run the
same batch: the prefill of A, a decode of A, the prefill of B, a decode of A and B, a decode of B,
which ends. In step 6 both check that every page and row is back, and wait: rank 0 for the outside,
rank 1 for rank 0. Tokens leave from rank 0 alone."""

LEFT, WIDTH = 112, 99
BOX = (88, 48)
RANK0, RANK1 = 122, 258

STEPS: tuple[tuple[str, str, str], ...] = (
    ("A", "[A]", "prefill A"),
    ("", "[]", "decode A"),
    ("B", "[B]", "prefill B"),
    ("", "[]", "decode A, B"),
    ("abort A", "[abort A]", "decode B"),
    ("", "", "check, wait"),
)
"""For each step what comes in, what is broadcast, and what both ranks do."""


def draw() -> Drawing:
    """Outside, rank 0, broadcasts, rank 1; a column is a step."""
    d = Drawing("Two ranks in lockstep", DESC, 720, 384)
    for y, name in ((32, "step"), (62, "outside"), (RANK0 + 28, "rank 0"), (RANK1 + 28, "rank 1")):
        d.text(24, y, name, "s" if name == "step" else "b")
    for column, (arrival, message, work) in enumerate(STEPS):
        x = LEFT + column * WIDTH
        d.text(x + BOX[0] / 2, 32, str(column + 1), "s", "middle")
        _rank(d, x, RANK0, work)
        _rank(d, x, RANK1, work)
        if arrival:
            d.text(x + 22, 62, arrival, "m", "middle" if len(arrival) == 1 else "start")
            d.arrow((x + 22, 72), (x + 22, RANK0 - 4))
        if message:
            d.arrow((x + 22, RANK0 + BOX[1] + 2), (x + 22, RANK1 - 4), dashed=True)
            d.text(x + 30, 220, message, "m")
            d.arrow((x + 66, RANK0 - 2), (x + 66, 78))
    d.text(
        24,
        332,
        "Solid, down: a request or an abort that comes in. Solid, up: the step's tokens.",
        "s",
    )
    d.text(24, 350, "Dashed: the broadcast, one a step, also when nothing came.", "s")
    d.text(24, 368, "Before both ranks wait, each checks that its pages and rows are back.", "s")
    return d


def _rank(d: Drawing, x: float, y: float, work: str) -> None:
    tone = {"prefill": "amber", "decode": "blue"}.get(work.split()[0], "plain")
    d.box((x, y), BOX, [(work, "s")], tone, 4)
