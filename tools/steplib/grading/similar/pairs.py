"""Pairs of submissions, how much of their own code they share, and which of them to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

from steplib.grading.similar.prints import Prints, grams, winnow
from steplib.grading.similar.regions import Span, regions, shared_tokens

if TYPE_CHECKING:
    from collections.abc import Collection

    from steplib.grading.similar.prints import Gram

LEAST_SHARE = 0.3
LEAST_TOKENS = 80
"""What a pair shares at the least to be shown: some ten lines, three tenths of the smaller one."""
_SPREADS = 4
_ENOUGH_PAIRS = 10
_ENOUGH_STUDENTS = 3


@dataclass(frozen=True)
class Pair:
    """score: the larger of both shares. shares: how much of each one's own code is in both."""

    names: tuple[str, str]
    shares: tuple[float, float]
    tokens: int
    regions: list[tuple[Span, Span]]

    @property
    def score(self) -> float:
        return max(self.shares)


@dataclass(frozen=True)
class Found:
    """The pairs to look at, most alike first. usual: the middle score of all pairs."""

    pairs: list[Pair]
    compared: int
    usual: float
    bound: float


def compare(everybody: list[Prints], handed_out: Collection[Gram]) -> Found:
    """Leave out what was handed out and what most have, then compare each with each."""
    given = {*handed_out, *_common(everybody)}
    for one in everybody:
        winnow(one, given)
    pairs = [_pair(a, b) for a, b in combinations(everybody, 2)]
    usual, bound = _chance([pair.score for pair in pairs])
    shown = [pair for pair in pairs if pair.score >= bound and pair.tokens >= LEAST_TOKENS]
    return Found(sorted(shown, key=lambda pair: -pair.score), len(pairs), usual, bound)


def _common(everybody: list[Prints]) -> set[Gram]:
    """What more than half of the class has, and more than three."""
    seen = Counter(gram for one in everybody for gram in _grams(one))
    most = max(len(everybody) / 2, _ENOUGH_STUDENTS)
    return {gram for gram, count in seen.items() if count > most}


def _grams(one: Prints) -> set[Gram]:
    return {gram for file in one.files.values() for gram in grams(file)}


def _chance(scores: list[float]) -> tuple[float, float]:
    """The middle score, and where scores begin that stand out from it."""
    if len(scores) < _ENOUGH_PAIRS:
        return (median(scores) if scores else 0.0), LEAST_SHARE
    usual = median(scores)
    spread = median(abs(score - usual) for score in scores)
    return usual, max(LEAST_SHARE, usual + _SPREADS * spread)


def _pair(a: Prints, b: Prints) -> Pair:
    shared = a.places.keys() & b.places.keys()
    inside = (shared_tokens(a, shared), shared_tokens(b, shared))
    shares = (_share(inside[0], a), _share(inside[1], b))
    return Pair((a.name, b.name), shares, min(inside), regions(a, b, shared))


def _share(count: int, one: Prints) -> float:
    return min(count / one.own, 1.0) if one.own else 0.0
