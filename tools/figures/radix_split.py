"""A radix tree before and after an insertion that splits a node."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing, Point

DESC = """Left, the tree before: below the root one node with the tokens the, cat, sat, on, their
slots 7, 8, 9, 3, one lock, last used at tick 5; the handle of request 0 points to it. Right, after
the tokens the, cat, ran were inserted at tick 6: a new node with the, cat and slots 7, 8 hangs
below the root, with the old node's lock; below it hang the old node, which keeps sat, on, the slots
9, 3, its lock and its age, and a new node with ran, slot 5 and no lock. The handle still points to
the old node, and from there up to the root it finds the same four tokens as before."""

Lines = Sequence[str]


def draw() -> Drawing:
    """Before on the left, after on the right."""
    d = Drawing("A split in the radix tree", DESC, 720, 392)
    d.text(24, 34, "Before", "b")
    _root(d, (92, 50))
    _node(d, (24, 130), 190, "the cat sat on", "7  8  9  3", 1, 5, "blue")
    d.arrow((119, 82), (119, 128))
    d.box((24, 316), (190, 44), [("request 0's handle", "t"), ("4 tokens", "s")], "green")
    d.arrow((119, 316), (119, 212))
    d.arrow((232, 160), (298, 160))
    d.text(265, 116, "insert", "s", "middle")
    d.text(265, 132, "the cat ran", "m", "middle")
    d.text(265, 148, "at tick 6", "s", "middle")
    d.text(330, 34, "After", "b")
    _root(d, (478, 50))
    _node(d, (410, 104), 190, "the cat", "7  8", 1, 6, "amber")
    d.arrow((505, 82), (505, 102))
    _node(d, (330, 216), 160, "sat on", "9  3", 1, 5, "blue")
    _node(d, (524, 216), 160, "ran", "5", 0, 6, "amber")
    d.arrow((470, 184), (410, 214))
    d.arrow((540, 184), (604, 214))
    d.box(
        (330, 316), (160, 44), [("request 0's handle", "t"), ("4 tokens, as before", "s")], "green"
    )
    d.arrow((410, 316), (410, 298))
    d.text(524, 330, "Amber: new. The old node", "s")
    d.text(524, 346, "keeps its end, so that", "s")
    d.text(524, 362, "handles on it stay right.", "s")
    return d


def _root(d: Drawing, at: Point) -> None:
    d.box(at, (54, 32), [("root", "t")])


def _node(
    d: Drawing, at: Point, width: float, tokens: str, slots: str, locks: int, used: int, tone: str
) -> None:
    lines = [
        (tokens, "m"),
        (f"slots {slots}", "s"),
        (f"locks {locks}", "s"),
        (f"used at tick {used}", "s"),
    ]
    d.box(at, (width, 80), lines, tone)
