"""A row that is given away while a launched batch still writes it, and one that is held."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing, Point

DESC = """Two timelines, each with a lane for the scheduler, one for the device and the token pool's
row 2 at the end. Request A owns row 2; batches k and k+1, which both hold A, are launched. Above,
the fault: the scheduler reads batch k, sees that A has ended, gives row 2 back at once and writes
the prompt of request B, b0 to b7, into it, while the device still runs batch k+1, which writes A's
next token into column 6 of row 2. B's prompt then holds A's token in place of b6, or B's token is
written last, depending on who is faster. Below, mended: A has ended, but row 2 is held until batch
k+1 has been read as well; only then it is given to B, whose prompt stays whole."""

LANE, LEFT, HEIGHT = 34, 110, 200
Block = tuple[float, float, str, str]
"""From, to, text, tone."""

EARLY: tuple[Sequence[Block], Sequence[Block]] = (
    (
        (0, 104, "launch k+1", "amber"),
        (150, 268, "read k: A ended", "green"),
        (272, 440, "row 2 to B: its prompt", "red"),
    ),
    (
        (0, 146, "batch k, with A", "blue"),
        (150, 440, "batch k+1, still with A: writes row 2", "red"),
        (444, 590, "batch k+2, with B", "blue"),
    ),
)
HELD: tuple[Sequence[Block], Sequence[Block]] = (
    (
        (0, 104, "launch k+1", "amber"),
        (150, 268, "read k: A ended", "green"),
        (272, 376, "launch k+2", "amber"),
        (444, 520, "read k+1", "green"),
        (524, 590, "row to B", "green"),
    ),
    (
        (0, 146, "batch k, with A", "blue"),
        (150, 440, "batch k+1, still with A: writes row 2", "blue"),
        (444, 590, "batch k+2", "blue"),
    ),
)


def draw() -> Drawing:
    """The fault above, the mended order below."""
    d = Drawing("A row given away too early", DESC, 720, 424)
    _timeline(d, 24, "Given away at once", EARLY)
    _row(d, (LEFT, 154), 6)
    d.arrow((LEFT + 247, 124), (LEFT + 247, 152))
    d.text(LEFT + 330, 168, "A's late token lies in B's prompt,", "s")
    d.text(LEFT + 330, 184, "or not: whoever writes last", "s")
    d.line((24, 212), (696, 212), dashed=True)
    _timeline(d, 232, "Held until batch k+1 has been read", HELD)
    _row(d, (LEFT, 354), None)
    d.text(LEFT + 330, 368, "B's prompt is written when no", "s")
    d.text(LEFT + 330, 384, "launched batch holds the row", "s")
    d.text(24, 412, "Time runs to the right. The pages of A are held in the same way.", "s")
    return d


def _timeline(
    d: Drawing, y: float, title: str, lanes: tuple[Sequence[Block], Sequence[Block]]
) -> None:
    d.text(24, y + 12, title, "b")
    for lane, (name, blocks) in enumerate(zip(("scheduler", "device"), lanes, strict=True)):
        top = y + 26 + lane * (LANE + 6)
        d.text(24, top + 22, name, "s")
        for start, end, text, tone in blocks:
            d.box((LEFT + start, top), (end - start, LANE), [(text, "s")], tone, 4)


def _row(d: Drawing, at: Point, spoiled: int | None) -> None:
    d.text(24, at[1] + 20, "row 2", "s")
    labels = ["a" if i == spoiled else f"b{i}" for i in range(8)]
    tones = ["red" if i == spoiled else "green" for i in range(8)]
    d.cells(at, labels, tones, (38, 32))
