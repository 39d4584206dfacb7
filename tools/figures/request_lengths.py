"""The three lengths of a request, before and after one forward pass."""

from __future__ import annotations

from figures.svg import Drawing, Point

DESC = """A request as a row of token positions. cached_len tokens already have keys and values
in the pool; the next extend_len tokens up to device_len are computed by the next forward pass;
the places up to max_device_len are still to be generated. After one pass cached_len has moved
up to device_len, and device_len has grown by one."""

SIZE = (36, 30)
PASSES = (
    (24, "Prefill: a prompt of five tokens, the first two already cached", 2, 5),
    (144, "After the pass: one token was sampled, and it is computed next", 5, 6),
    (264, "After one decode step: the same again, one token further", 6, 7),
)


def draw() -> Drawing:
    """Three rows: the request at prefill, after it, and one decode step later."""
    d = Drawing("The lengths of a request", DESC, 720, 374)
    for y, title, cached, device in PASSES:
        d.text(24, y + 14, title)
        _row(d, (24, y + 26), cached, device, total=9)
    d.cells((520, 50), [""], "green", (20, 20))
    d.text(550, 65, "cached: in the pool", "s")
    d.cells((520, 80), [""], "amber", (20, 20))
    d.text(550, 95, "extend: computed next", "s")
    d.cells((520, 110), [""], "plain", (20, 20))
    d.text(550, 125, "remain: still to come", "s")
    return d


def _row(d: Drawing, at: Point, cached: int, device: int, total: int) -> None:
    tones = ["green"] * cached + ["amber"] * (device - cached) + ["plain"] * (total - device)
    d.cells(at, list(range(total)), tones, SIZE)
    names = (
        (cached, "cached_len", 56, "end"),
        (device, "device_len", 72, "start"),
        (total, "max_device_len", 56, "start"),
    )
    for length, name, drop, anchor in names:
        x, y = at[0] + length * SIZE[0], at[1]
        d.line((x, y + SIZE[1]), (x, y + drop))
        d.text(x + (6 if anchor == "start" else -6), y + drop, name, "m", anchor)
