"""Fingerprints of a submission: which k-grams of its own code, winnowed, and where they stand."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from steplib.grading.similar.tokens import Token, tokens

K = 20
"""Tokens of a k-gram: some three lines. A shorter run in common is taken for chance."""
WINDOW = 10
"""Any run of K + WINDOW - 1 tokens in common is found."""

Gram = str


@dataclass(frozen=True)
class Place:
    """Where a k-gram begins: file, and the number of its first token."""

    path: str
    first: int


@dataclass
class Prints:
    """One submission. own: the number of its tokens that nobody handed out."""

    name: str
    files: dict[str, list[Token]]
    own: int = 0
    places: dict[Gram, list[Place]] = field(default_factory=dict)


def grams(file: list[Token]) -> Iterator[Gram]:
    """Every k-gram of a file, in order."""
    kinds = [token.kind for token in file]
    return (" ".join(kinds[first : first + K]) for first in range(len(kinds) - K + 1))


def all_grams(sources: Iterable[bytes]) -> set[Gram]:
    """The k-grams of what was handed out."""
    return {gram for source in sources for gram in grams(tokens(source))}


def read(name: str, sources: Mapping[str, bytes], handed_out: Collection[bytes]) -> Prints:
    """A submission's Python files, but for those that stand as they were handed out."""
    own = {path: data for path, data in sources.items() if data not in handed_out}
    return Prints(name, {path: tokens(data) for path, data in own.items()})


def winnow(prints: Prints, given: Collection[Gram]) -> None:
    """Fill in own and places, from the k-grams that are not given."""
    prints.own, prints.places = 0, {}
    for path, file in prints.files.items():
        kept = [(first, gram) for first, gram in enumerate(grams(file)) if gram not in given]
        prints.own += len(covered(first for first, _ in kept))
        for first, gram in _chosen(kept):
            prints.places.setdefault(gram, []).append(Place(path, first))


def covered(firsts: Iterable[int]) -> set[int]:
    """The tokens of k-grams that begin at these."""
    return {place for first in firsts for place in range(first, first + K)}


def _chosen(kept: list[tuple[int, Gram]]) -> list[tuple[int, Gram]]:
    """Of each window the k-gram of the least hash, the last one of equals."""
    hashes = [zlib.crc32(gram.encode()) for _, gram in kept]
    chosen: dict[int, None] = {}
    for start in range(max(len(kept) - WINDOW + 1, min(len(kept), 1))):
        window = range(start, min(start + WINDOW, len(kept)))
        chosen[min(window, key=lambda place: (hashes[place], -place))] = None
    return [kept[place] for place in chosen]
