"""Who owns each page, and how a page changes hands."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing, Point

DESC = """A pool of 12 pages, each of which has exactly one owner: the free list has pages 1, 4, 6
and 11, the prefix cache 0, 3 and 8, request 0 pages 2, 5 and 9, request 1 pages 7 and 10. Pages
change hands in four ways. allocate_paged takes them from the free list for a request. cache_req
hands a finished request's whole pages to the prefix cache, and frees what the cache has already and
the last page if it is not full. evict gives pages of the prefix cache back to the free list. What
is freed inside lazy_free_region is gathered first and joins the free list at its end, in one go.
Below, check_integrity compares the sets: the pool's 12 pages, each in the color of its owner, none
blank and none twice."""

OWNERS = {
    "free list": ("plain", (1, 4, 6, 11)),
    "prefix cache": ("violet", (0, 3, 8)),
    "request 0": ("blue", (2, 5, 9)),
    "request 1": ("amber", (7, 10)),
}
CELL = (34, 28)


def draw() -> Drawing:
    """Three owners as boxes with arrows between them; the pool as a strip below."""
    d = Drawing("Owners of pages", DESC, 720, 432)
    _owner(d, (24, 24), 190, ["free list"])
    _owner(d, (506, 24), 190, ["request 0", "request 1"])
    _owner(d, (264, 200), 190, ["prefix cache"])
    d.arrow((216, 50), (504, 50))
    d.text(360, 42, "allocate_paged", "m", "middle")
    d.box((286, 68), (148, 48), [("lazy_free_region", "m"), ("freed in this step", "s")], "none")
    d.arrow((504, 92), (436, 92))
    d.text(470, 84, "free", "m", "middle")
    d.arrow((284, 92), (216, 92))
    d.text(250, 84, "at its end", "s", "middle")
    d.arrow((602, 172), (602, 242), (456, 242))
    d.text(466, 208, "cache_req", "m")
    d.text(466, 226, "whole pages", "s")
    d.arrow((262, 242), (120, 242), (120, 110))
    d.text(136, 180, "evict", "m")
    d.text(136, 196, "the longest unused", "s")
    _strip(d, 338)
    d.text(
        24,
        316,
        "A cached prefix that a request reads stays the cache's: the request holds a lock.",
        "s",
    )
    return d


def _owner(d: Drawing, at: Point, width: float, names: Sequence[str]) -> None:
    height = 22 + 62 * len(names)
    d.frame(at, (width, height), names[0], "b")
    for i, name in enumerate(names):
        tone, pages = OWNERS[name]
        y = at[1] + 34 + i * 62
        if i:
            d.text(at[0] + 12, y - 8, name, "b")
        d.cells((at[0] + 12, y), pages, tone, CELL)


def _strip(d: Drawing, y: float) -> None:
    owner = {page: (name, tone) for name, (tone, pages) in OWNERS.items() for page in pages}
    d.text(24, y + 2, "check_integrity: each page has exactly one owner", "b")
    d.cells((24, y + 14), range(12), [owner[page][1] for page in range(12)], (40, 30))
    for i, (name, (tone, _)) in enumerate(OWNERS.items()):
        d.cells((24 + i * 130, y + 60), [""], tone, (16, 16))
        d.text(46 + i * 130, y + 73, name, "s")
