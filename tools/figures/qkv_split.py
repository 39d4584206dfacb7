"""A merged projection: one product, cut into heads, of which two kinds are rotated in pairs."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """One product gives 960 channels for each token of SmolLM2: 576 for q, which are 9 heads of
64, then 192 for k, 3 heads, then 192 for v, 3 heads. Heads of q and k are normalized where the
model asks for it and then rotated: in a head of 8 channels the pairs are 0 and 4, 1 and 5, 2 and
6, 3 and 7. Heads of v are left as they are. Query heads 0 to 2 share key and value head 0."""

UNIT, LEFT = 44, 30
CELL = 46


def draw() -> Drawing:
    """The row of heads, then one head with its pairs."""
    d = Drawing("A merged projection and the pairs of a rotation", DESC, 720, 372)
    d.text(LEFT, 30, "qkv_proj: (tokens, 576) -> (tokens, 960), one product", "b")
    heads = [f"q{i}" for i in range(9)] + [f"k{i}" for i in range(3)] + [f"v{i}" for i in range(3)]
    tones = ["blue", "plain", "violet"]
    shades = [tones[i // 3] for i in range(9)] + tones * 2
    d.cells((LEFT, 46), heads, shades, (UNIT, 34))
    for first, count, text in ((0, 9, "576 = 9 x 64"), (9, 3, "192 = 3 x 64"), (12, 3, "192")):
        middle = LEFT + (first + count / 2) * UNIT
        d.text(middle, 100, text, "s", "middle")
    d.text(LEFT, 124, "Equal shades belong together: q0, q1 and q2 attend to k0 and v0.", "s")
    d.text(LEFT, 168, "RoPE on one head of q or k, here of 8 channels", "b")
    d.cells((LEFT, 216), list(range(8)), ["amber"] * 4 + ["green"] * 4, (CELL, 34))
    for i in range(4):
        a, b = LEFT + (i + 0.5) * CELL, LEFT + (i + 4.5) * CELL
        y = 256 + 14 * i
        d.line((a, 250), (a, y + 6), (b, y + 6), (b, 250))
        d.text(LEFT + 8 * CELL + 24, 226 + 26 * i, f"pair ({i}, {i + 4}): p * freq[{i}]", "m")
    d.text(LEFT + 2 * CELL, 206, "first half", "s", "middle")
    d.text(LEFT + 6 * CELL, 206, "second half", "s", "middle")
    d.text(
        LEFT, 340, "Each pair turns in its own plane, by an angle that grows with position p.", "s"
    )
    d.text(LEFT, 360, "The first pair turns fastest, the last one slowest.", "s")
    return d
