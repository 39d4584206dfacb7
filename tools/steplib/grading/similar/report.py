"""The pairs for a person: as lines, and as a page that shows the regions side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from steplib.grading.formats.page import environment
from steplib.grading.formats.view import count, plain

if TYPE_CHECKING:
    from steplib.grading.similar.pairs import Found, Pair
    from steplib.grading.similar.regions import Span

Sources = Mapping[str, Mapping[str, bytes]]
"""The Python files of each submission, by its name and then by path."""

_MOST_REGIONS = 8
_MOST_LINES = 80
CAUTION = (
    "This is a place to look, not a verdict: alike code can come from the page, from a book that "
    "both read, or from work that was allowed. Read both before you ask anybody."
)


def lines(found: Found, left_out: list[str]) -> Iterator[str]:
    """left_out: sentences on submissions that could not be compared."""
    for pair in found.pairs:
        yield from _told(pair)
    yield from map(plain, left_out)
    yield summary(found)
    if found.pairs:
        yield CAUTION


def _told(pair: Pair) -> Iterator[str]:
    first, second = map(plain, pair.names)
    shares = [percent(share) for share in pair.shares]
    yield f"{percent(pair.score)}  {first} and {second}"
    yield f"     {shares[0]} of what {first} wrote, {shares[1]} of what {second} wrote"
    for here, there in pair.regions[:_MOST_REGIONS]:
        yield f"     {_place(here)}  ~  {_place(there)}"
    if len(pair.regions) > _MOST_REGIONS:
        yield f"     and {count(len(pair.regions) - _MOST_REGIONS, 'shorter region')}"


def summary(found: Found) -> str:
    """What was compared, and what is usual in this class."""
    pairs = count(len(found.pairs), "pair")
    verb = "stands" if len(found.pairs) == 1 else "stand"
    usual = percent(found.usual)
    usual += "" if usual == percent(0) else " or less"
    return (
        f"{pairs} of {found.compared} {verb} out: half of all pairs are at {usual}, "
        f"and from {percent(found.bound)} on a pair is shown"
    )


def percent(share: float) -> str:
    """`42%`."""
    return f"{100 * share:.0f}%"


def _place(span: Span) -> str:
    return f"{plain(span.path)}:{span.lines[0]}-{span.lines[1]}"


def as_page(found: Found, sources: Sources, left_out: list[str]) -> str:
    """One page by itself. sources: the files to quote from."""
    return (
        environment()
        .get_template("similar.html")
        .render(
            pairs=[_shown(pair, sources) for pair in found.pairs],
            summary=summary(found),
            left_out=left_out,
            caution=CAUTION,
        )
    )


def _shown(pair: Pair, sources: Sources) -> dict[str, Any]:
    both = [
        [_side(span, sources[name]) for span, name in zip(region, pair.names, strict=True)]
        for region in pair.regions[:_MOST_REGIONS]
    ]
    sides = list(zip(pair.names, map(percent, pair.shares), strict=True))
    more = max(len(pair.regions) - _MOST_REGIONS, 0)
    return {"sides": sides, "score": percent(pair.score), "regions": both, "more": more}


def _side(span: Span, files: Mapping[str, bytes]) -> dict[str, str]:
    text = files[span.path].decode(errors="replace").splitlines()
    first, last = span.lines
    cut = text[first - 1 : min(last, first - 1 + _MOST_LINES)]
    rest = ["", "(cut here)"] if last - first + 1 > _MOST_LINES else []
    return {"place": _place(span), "code": dedent("\n".join([*cut, *rest]))}
