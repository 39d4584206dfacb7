"""Stop strings in random texts, however these are cut into pieces."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minisgl.server.stop import StopChecker

letters = st.sampled_from("abc") | st.sampled_from("é\n👍")
texts = st.text(st.sampled_from("ab"), max_size=30) | st.text(letters, max_size=60)
stops = st.lists(
    st.text(st.sampled_from("ab"), min_size=1, max_size=6) | st.text(letters, min_size=1),
    max_size=4,
)
cuts = st.lists(st.integers(0, 60), max_size=30)


def pieces_of(text: str, places: list[int]) -> list[str]:
    """The text cut at these places; equal places give pieces without text."""
    ends = sorted(min(place, len(text)) for place in places)
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def up_to_first(text: str, found: list[str]) -> str:
    return min((text.split(stop)[0] for stop in found), key=len, default=text)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(texts, stops, cuts)
def test_what_is_shown_is_the_text_up_to_the_first_stop(
    text: str, some: list[str], places: list[int]
) -> None:
    pieces = pieces_of(text, places)
    checker, shown, is_met = StopChecker(some), "", False
    for i, piece in enumerate(pieces):
        more, is_met = checker.push(piece, i == len(pieces) - 1)
        shown += more
    assert shown == up_to_first(text, some)
    assert is_met == any(stop in text for stop in some)


@settings(derandomize=True, deadline=None, max_examples=400)
@given(texts, stops, cuts)
def test_no_more_is_held_back_than_may_begin_a_stop(
    text: str, some: list[str], places: list[int]
) -> None:
    checker, shown, seen = StopChecker(some), "", ""
    for piece in pieces_of(text, places):
        more, is_met = checker.push(piece)
        shown, seen = shown + more, seen + piece
        assert up_to_first(seen, some).startswith(shown)
        if is_met:
            return
        begun = [i for i in range(len(seen)) if any(s.startswith(seen[i:]) for s in some)]
        assert len(shown) == min(begun, default=len(seen))
