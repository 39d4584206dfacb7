"""Believes that the first stop string in the list that fits decides what waits."""

from __future__ import annotations

from minisgl.server.stop import NOWHERE, StopChecker


def held_back(stops: list[str], text: str) -> int:
    """How many characters the chapter's StopChecker holds back after push(text).

    text: the whole text so far, in which no stop string is complete.
    """
    begun = (n for stop in stops for n in range(len(stop) - 1, 0, -1) if text.endswith(stop[:n]))
    return next(begun, 0)


class KeepingChecker(StopChecker):
    """Shows the text of one answer up to and with the stop string that begins first.

    Each letter is shown as soon as it is certain to belong to the answer.
    """

    def __init__(self, stops: list[str]) -> None:
        super().__init__(stops)
        self._end = NOWHERE  # of the stop string that begins at _cut

    def push(self, text: str, last: bool = False) -> tuple[str, bool]:
        """Return what may be shown now, and whether a stop string was met; last: no more comes."""
        if not self._stops or self._is_met:
            return ("" if self._is_met else text), self._is_met
        start = self._length - len(self._held)
        for char in text:
            before = self._cut
            self._take(char)
            if self._cut < before:
                self._end = self._length
            if self._cut <= self._open():
                self._is_met = True
                break
        self._is_met |= last and self._cut < NOWHERE
        pending = self._held + text
        end = min(self._end, self._length)
        shown, self._held = pending[: end - start], pending[end - start :]
        return shown, self._is_met
