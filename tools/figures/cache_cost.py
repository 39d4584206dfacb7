"""What each step computes, without and with a KV cache."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Two staircases of seven decoding steps. Without a cache, step n computes all n tokens
again: 28 token computations for 7 steps, which grows with the square of the length. With a
cache each step computes one token and reads the keys and values of the earlier ones: 7 token
computations."""

STEPS, CELL = 7, 36


def draw() -> Drawing:
    """Two panels with the same steps."""
    d = Drawing("The cost of generating without a cache", DESC, 720, 366)
    _panel(d, 60, "Without a cache", is_cached=False)
    _panel(d, 420, "With a cache", is_cached=True)
    d.text(60, 346, "28 tokens computed: n (n + 1) / 2", "s")
    d.text(420, 346, "7 tokens computed: n", "s")
    return d


def _panel(d: Drawing, x: float, title: str, is_cached: bool) -> None:
    d.text(x, 30, title, "b")
    for step in range(1, STEPS + 1):
        y = 44 + (step - 1) * (CELL + 3)
        d.text(x - 14, y + 23, str(step), "s", "end")
        tones = ["green"] * (step - 1) + ["amber"] if is_cached else ["amber"] * step
        labels = ["read"] * (step - 1) + ["new"] if is_cached else ["new"] * step
        d.cells((x, y), labels, tones, (CELL, CELL), "s")
