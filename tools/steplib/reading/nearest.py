"""Which section of a page treats a failure: by the names in its code, and by its words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from steplib.reading.sections import Section, words_of

_CLEAR = re.compile(r"[A-Z]|\w_\w")  # in a name that is no word of the language
_MOST = 0.6
_OF_A_FILE = 2.0


def closest(
    page: list[Section], certain: Sequence[str], spoken: Sequence[str], test: str
) -> Section | None:
    """The section that treats what a failure is about, or None where none surely does.

    certain, spoken: symbols as `path::name`; those that the failure is about, and all of its test.
    A section has to name one in code or to have the contract of its file. Where no symbol is
    certain, it may also be near to the test's name.
    """
    told = [section for section in page if section.is_explanation]
    if not told:
        return None
    wanted = _Wanted(told, certain, spoken, test)
    return max(filter(wanted.is_in, told), key=wanted.score, default=None)


class _Wanted:
    """What is looked for in these sections, each name and word with its weight."""

    def __init__(
        self, told: list[Section], certain: Sequence[str], spoken: Sequence[str], test: str
    ) -> None:
        said = dict.fromkeys(words_of(test.replace("_", " ")), 1.0)
        weights = _weights(certain, spoken, set(said))
        self.is_certain = bool(certain)
        self.words = _weighed(said, [section.words for section in told])
        self.names = _weighed(weights, [section.code for section in told])
        self.files = {name.partition("::")[0] for name in certain or spoken}
        words_in_all = sum(section.words.total() for section in told)
        self.usual_length = max(words_in_all / len(told), 1.0)

    def is_in(self, section: Section) -> bool:
        """Whether the section is one to send somebody to."""
        is_named = bool(self.names.keys() & section.code.keys() or self.files & section.files)
        return is_named or (not self.is_certain and _is_near(section, self.words))

    def score(self, section: Section) -> float:
        """More for the section that treats it more closely."""
        length = section.words.total() / self.usual_length
        found = _score(self.names, section.code, length) + _score(self.words, section.words, length)
        return found + _OF_A_FILE * bool(self.files & section.files)


def _weights(certain: Sequence[str], spoken: Sequence[str], test: set[str]) -> dict[str, float]:
    """How much each name counts: what is certain most, a class around a method less.

    A name counts more where the test's name has a part of it.
    """
    weights: dict[str, float] = {}
    for name, weight in [*((name, 0.5) for name in spoken), *((name, 3.0) for name in certain)]:
        *around, own = name.partition("::")[2].split(".")
        if weight < 1 and not _CLEAR.search(own):
            continue
        weight += bool(test & set(words_of(own.replace("_", " "))))
        for part, share in ((own, 1.0), (".".join(around[-1:]), 0.25)):
            if part and not part.startswith("__"):
                weights[part] = max(weights.get(part, 0.0), weight * share)
    return weights


def _weighed(weights: dict[str, float], everywhere: list[Counter[str]]) -> dict[str, float]:
    """More for what few sections have, as in a search (TF-IDF)."""
    count = {word: sum(word in counts for counts in everywhere) for word in weights}
    return {w: weights[w] * math.log(1 + len(everywhere) / (1 + count[w])) for w in weights}


def _is_near(section: Section, words: dict[str, float]) -> bool:
    """Whether it has most of the words, each with its weight, or two of them in its heading."""
    here = sum(words[word] for word in words.keys() & section.words.keys())
    in_heading = words.keys() & set(words_of(section.title))
    return len(in_heading) > 1 or here > _MOST * (sum(words.values()) or 1)


def _score(words: dict[str, float], here: Counter[str], length: float) -> float:
    """More for what comes often, but less and less so; less in a long section (as in BM25)."""
    enough = 0.5 + 0.5 * length
    return sum(weight * here[word] / (here[word] + enough) for word, weight in words.items())
