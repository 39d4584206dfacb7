"""One decoder layer, from its input to its output."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """One decoder layer in two halves. Attention half: x is normalized by RMSNorm, projected to
q, k and v, q and k are rotated by RoPE, k and v go into the KV cache, q attends to all cached
keys and values, the o projection brings the result back to the hidden size, and it is added to x.
MLP half: the sum is normalized again, projected by gate and up, silu of gate times up goes through
the down projection, and the result is added. SmolLM2-135M does this 30 times."""

LEFT, TOP, GAP = 24, 60, 24


def draw() -> Drawing:
    """Two rows of boxes, each with its residual path above."""
    d = Drawing("One decoder layer", DESC, 720, 420)
    d.text(LEFT, 28, "x: (tokens, 576), then the same shape after each half", "b")
    _half(
        d,
        TOP,
        (
            (84, ("RMSNorm",), "plain"),
            (92, ("q 9 heads", "k 3 heads", "v 3 heads"), "blue"),
            (92, ("RoPE", "turns q, k"), "violet"),
            (104, ("attend to all", "earlier k, v"), "green"),
            (84, ("o_proj",), "blue"),
        ),
    )
    d.box((336, TOP + 130), (172, 36), [("KV cache of this layer", "s")], "amber")
    d.arrow((294, TOP + 106), (294, TOP + 148), (334, TOP + 148))
    d.arrow((422, TOP + 130), (422, TOP + 108))
    _half(
        d,
        TOP + 200,
        (
            (84, ("RMSNorm",), "plain"),
            (110, ("gate_proj 1536", "up_proj 1536"), "blue"),
            (132, ("silu(gate) * up",), "violet"),
            (94, ("down_proj",), "blue"),
        ),
    )
    d.text(LEFT, 404, "Blue boxes hold the large matrices. Both halves add to the residual.", "s")
    return d


def _half(d: Drawing, y: float, steps: tuple[tuple[int, tuple[str, ...], str], ...]) -> None:
    """Boxes from left to right, and the residual that goes around them to a plus sign."""
    x = LEFT + 40.0
    d.arrow((LEFT, y + 74), (x - 2, y + 74))
    d.line((LEFT + 16, y + 74), (LEFT + 16, y + 14), (640, y + 14))
    d.arrow((640, y + 14), (640, y + 58))
    for i, (width, lines, tone) in enumerate(steps):
        d.box((x, y + 42), (width, 64), [(line, "s") for line in lines], tone)
        end = x + width
        last = i == len(steps) - 1
        d.arrow((end, y + 74), (624 if last else end + GAP - 2, y + 74))
        x = end + GAP
    d.box((626, y + 60), (28, 28), [("+", "b")], "plain", 14)
    d.arrow((654, y + 74), (700, y + 74))
