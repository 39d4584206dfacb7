"""Stop strings: the text of an answer up to the first of them, and never a letter further."""

from __future__ import annotations

NOWHERE = 2**62
"""A position behind every text."""


class StopChecker:
    """Shows the text of one answer as it comes, up to the stop string that begins first.

    Text that may be the beginning of a stop string is held back until that is decided. It takes
    each character once, with the automaton of Knuth, Morris and Pratt (1977) for each stop.
    """

    def __init__(self, stops: list[str]) -> None:
        assert all(stops), "an empty text can't be a stop string"
        self._stops = [(stop, _borders(stop)) for stop in stops]
        self._matched = [0] * len(stops)  # characters of each stop that the text ends with
        self._held = ""
        self._length = 0  # of all text so far
        self._cut = NOWHERE  # where the first stop string that is complete begins
        self._is_met = False

    def push(self, text: str, last: bool = False) -> tuple[str, bool]:
        """Return what may be shown now, and whether a stop string was met; last: no more comes.

        Once a stop string was met, nothing is ever shown again.
        """
        if not self._stops or self._is_met:
            return ("" if self._is_met else text), self._is_met
        start = self._length - len(self._held)
        for char in text:
            self._take(char)
            if self._cut <= self._open():  # no stop string can begin further to the left
                self._is_met = True
                break
        self._is_met |= last and self._cut < NOWHERE
        pending = self._held + text
        end = self._open()
        if self._is_met or last:
            end = min(self._cut, self._length)
        shown, self._held = pending[: end - start], pending[end - start :]
        return shown, self._is_met

    def _open(self) -> int:
        """Where the longest end of the text begins that may become a stop string."""
        return self._length - max(self._matched)

    def _take(self, char: str) -> None:
        self._length += 1
        for i, (stop, borders) in enumerate(self._stops):
            matched = self._matched[i]
            while matched and stop[matched] != char:
                matched = borders[matched - 1]
            matched += stop[matched] == char
            if matched == len(stop):
                self._cut = min(self._cut, self._length - matched)
                matched = borders[matched - 1]
            self._matched[i] = matched


def _borders(stop: str) -> list[int]:
    """For each beginning of stop: how long the longest shorter beginning is that it ends with."""
    borders, matched = [0], 0
    for char in stop[1:]:
        while matched and stop[matched] != char:
            matched = borders[matched - 1]
        matched += stop[matched] == char
        borders.append(matched)
    return borders
