"""Which node of the radix tree goes first."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing

DESC = """Three times the same radix tree, and below each the order of its unlocked nodes, the
longest unused first. At first the root has the children P, last used at tick 4, Q at tick 7 and L,
which is locked. P has the child A, tick 4; Q has the children B, tick 6, and D, tick 7. The order
is A, P, B, D, Q; a child always stands before its parent, and L is not in it. After one node is
evicted A is gone, and P, which has no child any more, is now a leaf and at the front. After the
second P is gone and B is at the front. L is never evicted while it is locked."""

PLACES = {
    "P": (36, 112),
    "Q": (124, 112),
    "L": (198, 112),
    "A": (36, 186),
    "B": (96, 186),
    "D": (152, 186),
}
PARENTS = {"A": "P", "B": "Q", "D": "Q"}
USED = {"A": 4, "P": 4, "B": 6, "D": 7, "Q": 7}
PANELS = (
    ("A tree and its order", "APBDQ"),
    ("evict: A goes", "PBDQ"),
    ("evict: then P", "BDQ"),
)
WIDTH, HALF = 48, 24


def draw() -> Drawing:
    """Three trees side by side, each over its order."""
    d = Drawing("Eviction from the radix tree", DESC, 720, 344)
    for i, (title, order) in enumerate(PANELS):
        _panel(d, 14 + i * 236, title, order)
        if i:
            d.line((8 + i * 236, 24), (8 + i * 236, 318), dashed=True)
    return d


def _panel(d: Drawing, x: float, title: str, order: str) -> None:
    d.text(x + 8, 34, title, "b")
    d.box((x + 96, 48), (48, 28), [("root", "s")], "plain", 6)
    for name, (left, top) in PLACES.items():
        if name in order or name == "L":
            above, bottom = (120, 76) if top == 112 else (PLACES[PARENTS[name]][0], 156)
            d.line((x + above, bottom), (x + left, top))
            _node(d, x + left - HALF, top, name, order)
    d.text(x + 8, 262, "order, longest unused first", "s")
    tones = ["red"] + ["blue"] * (len(order) - 1)
    d.cells((x + 8, 270), list(order), tones, (40, 30))
    d.text(x + 28, 318, "front", "s", "middle")
    d.text(x + 40 * len(order) - 12, 318, "back", "s", "middle")


def _node(d: Drawing, left: float, top: float, name: str, order: Sequence[str]) -> None:
    tone = "green" if name == "L" else "red" if name == order[0] else "blue"
    note = "locked" if name == "L" else f"tick {USED[name]}"
    d.box((left, top), (WIDTH, 44), [(name, "b"), (note, "s")], tone, 6)
