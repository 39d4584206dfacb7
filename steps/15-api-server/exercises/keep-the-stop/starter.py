"""A prediction of what is held back, and a StopChecker that keeps the stop string."""

from __future__ import annotations

from minisgl.server.stop import StopChecker


def held_back(stops: list[str], text: str) -> int:
    """How many characters the chapter's StopChecker holds back after push(text).

    text: the whole text so far, in which no stop string is complete.
    """
    raise NotImplementedError("exercise 15: predict how much is held back")


class KeepingChecker(StopChecker):
    """Shows the text of one answer up to and with the stop string that begins first.

    Each letter is shown as soon as it is certain to belong to the answer.
    """

    def push(self, text: str, last: bool = False) -> tuple[str, bool]:
        """Return what may be shown now, and whether a stop string was met; last: no more comes."""
        return super().push(text, last)
