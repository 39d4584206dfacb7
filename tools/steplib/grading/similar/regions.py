"""Where two submissions go on side by side: regions of lines, made of the k-grams they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from steplib.grading.similar.prints import WINDOW, K

if TYPE_CHECKING:
    from steplib.grading.similar.prints import Gram, Prints

_GAP = K + WINDOW
"""Two shared k-grams this near to each other, and as far apart in both, are one run."""
_OFTEN = 8  # places of one k-gram in a submission; what stands oftener makes no region


@dataclass(frozen=True)
class Span:
    """Lines of a file, first and last, and the number of their tokens that are shared."""

    path: str
    lines: tuple[int, int]
    tokens: int


def shared_tokens(one: Prints, shared: set[Gram]) -> int:
    """The number of a submission's tokens that shared k-grams cover."""
    firsts: dict[str, list[int]] = {}
    for gram in shared:
        for place in one.places[gram]:
            firsts.setdefault(place.path, []).append(place.first)
    runs = [run for places in firsts.values() for run in _runs(sorted(places))]
    return sum(run[-1] - run[0] + K for run in runs)


def regions(a: Prints, b: Prints, shared: set[Gram]) -> list[tuple[Span, Span]]:
    """Runs in which both go on side by side, the longest first; none lies within another."""
    sides: dict[tuple[str, str, int], list[int]] = {}
    for gram in shared:
        if len(a.places[gram]) * len(b.places[gram]) > _OFTEN:
            continue
        for x in a.places[gram]:
            for y in b.places[gram]:
                sides.setdefault((x.path, y.path, y.first - x.first), []).append(x.first)
    found = [
        (_span(a, path_a, run, 0), _span(b, path_b, run, shift))
        for (path_a, path_b, shift), firsts in sides.items()
        for run in _runs(sorted(firsts))
    ]
    found.sort(key=lambda both: (-both[0].tokens, both[0].path, both[0].lines, both[1].lines))
    return list(_without_inner(found))


def _runs(firsts: list[int]) -> Iterator[list[int]]:
    """Neighbors together, where no gap is longer than what winnowing leaves."""
    run = firsts[:1]
    for before, first in pairwise(firsts):
        if first - before > _GAP:
            yield run
            run = []
        run.append(first)
    yield run


def _span(one: Prints, path: str, run: list[int], shift: int) -> Span:
    first, last = run[0] + shift, run[-1] + shift + K
    file = one.files[path]
    return Span(path, (file[first].line, file[last - 1].line), last - first)


def _without_inner(found: list[tuple[Span, Span]]) -> Iterator[tuple[Span, Span]]:
    kept: list[tuple[Span, Span]] = []
    for pair in found:
        if not any(_lies_in(pair[side], other[side]) for other in kept for side in (0, 1)):
            kept.append(pair)
            yield pair


def _lies_in(span: Span, other: Span) -> bool:
    is_inside = other.lines[0] <= span.lines[0] and span.lines[1] <= other.lines[1]
    return span.path == other.path and is_inside
