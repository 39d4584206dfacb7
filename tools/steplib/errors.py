"""What the tool says when something is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class UserError(Exception):
    """Wrong use or a broken set-up; the command line prints it as one sentence and exits with 2."""


@dataclass(frozen=True)
class Problem:
    """A check that failed: which check, where (a file or `file:line`), what is wrong, the mend."""

    check: str
    where: str
    message: str
    mend: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message} {self.mend}"


def sentence(said: str) -> str:
    """What another program said, with the full stop that it may lack."""
    return said if said.endswith((".", "?", "!")) else f"{said}."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean "near"?`, or nothing when no known word is near."""
    near = get_close_matches(word, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""
