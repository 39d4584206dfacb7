"""Admission: pages that are taken, promised and free, and a head of the queue that waits."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing

DESC = """Above, a pool of 12 pages of 4 tokens. Request 0 may grow to 17 tokens, that is 5 pages:
it has taken 3 for its 9 tokens so far, and 2 are promised to it. Request 2 may grow to 12 tokens, 3
pages: 2 are taken, 1 is promised. 4 pages are free. Middle, the queue: the head may grow to 18
tokens, 5 pages, and waits, since only 4 are free. The request behind it needs 2 pages and waits as
well, so that small requests can't keep the head waiting for ever. Below, why pages are counted:
in tokens, 17 and 12 of 48 are reserved and 19 are left, so that 18 seem to fit; in pages, 8 of 12
are reserved, and the head's 5 reach beyond the pool's end."""

SLOT, GAP, LEFT = 12, 7, 24
PAGES = (
    *[("request 0", "green", n) for n in (4, 4, 1)],
    *[("request 0", "amber", 0) for _ in range(2)],
    *[("request 2", "green", n) for n in (4, 2)],
    ("request 2", "amber", 0),
    *[("free", "plain", 0) for _ in range(4)],
)
"""Each page's owner, its tone, and how many tokens it holds."""

BAR, TOKEN = 190, 9
"""Where the bars begin, and the px of a token in them."""


def draw() -> Drawing:
    """Pool, queue, and the two ways to count."""
    d = Drawing("Admission in pages", DESC, 720, 462)
    _pool(d)
    _queue(d, 164)
    d.text(LEFT, 338, "Why pages and not tokens", "b")
    _count(d, 354, "in tokens: 19 are left", (17, 12, 18), ("17", "12", "18: seem to fit"))
    _count(d, 396, "in pages: 4 are left", (20, 12, 20), ("5 pages", "3", "5: do not"))
    end = BAR + 48 * TOKEN
    d.line((end, 346), (end, 438), dashed=True)
    d.text(end, 452, "end of the pool", "s", "middle")
    return d


def _pool(d: Drawing) -> None:
    d.text(LEFT, 34, "Pool: 12 pages of 4 tokens", "b")
    for i, (tone, text) in enumerate(
        (("green", "holds a token"), ("amber", "promised"), ("plain", "empty"))
    ):
        x = (330, 460, 570)[i]
        d.cells((x, 22), [""], tone, (16, 16))
        d.text(x + 22, 35, text, "s")
    for i, (_, tone, tokens) in enumerate(PAGES):
        x = LEFT + i * (4 * SLOT + GAP)
        tones = ["green"] * tokens + ["plain"] * (4 - tokens) if tone == "green" else [tone] * 4
        d.cells((x, 54), [""] * 4, tones, (SLOT, 34))
    for name, first, count, text in (
        ("request 0", 0, 5, "9 tokens now, at most 17: 5 pages"),
        ("request 2", 5, 3, "6, at most 12: 3 pages"),
        ("free", 8, 4, "4 pages"),
    ):
        left = LEFT + first * (4 * SLOT + GAP)
        right = left + count * (4 * SLOT + GAP) - GAP
        d.line((left, 94), (left, 100), (right, 100), (right, 94))
        d.text((left + right) / 2, 117, name, "t", "middle")
        d.text((left + right) / 2, 134, text, "s", "middle")


def _queue(d: Drawing, y: float) -> None:
    d.text(LEFT, y + 14, "Queue", "b")
    head = [("head: 8 + 10 tokens", "t"), ("18 tokens: 5 pages", "s")]
    d.box((LEFT, y + 26), (200, 52), head, "red")
    d.text(240, y + 48, "waits: 5 pages are more than the 4 that are free", "t")
    d.text(240, y + 66, "It runs when request 0 or request 2 has ended.", "s")
    d.box((LEFT, y + 84), (200, 52), [("next: 3 + 4 tokens", "t"), ("7 tokens: 2 pages", "s")])
    d.text(240, y + 106, "would fit, and waits behind the head all the same", "t")
    d.text(240, y + 124, "If small ones could pass, a large head might wait for ever.", "s")


def _count(d: Drawing, y: float, title: str, lengths: Sequence[int], labels: Sequence[str]) -> None:
    """One bar: reserved for two requests, then the head. All lengths in tokens."""
    d.text(LEFT, y + 22, title, "t")
    x = float(BAR)
    names = ("request 0", "request 2", "head")
    tones = ("green", "green", "amber" if sum(lengths) <= 48 else "red")
    for length, name, label, tone in zip(lengths, names, labels, tones, strict=True):
        d.box((x, y), (length * TOKEN, 34), [(f"{name}: {label}", "s")], tone, 0)
        x += length * TOKEN
