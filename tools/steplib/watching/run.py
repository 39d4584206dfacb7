"""One run of the fast tier: how far it is, what it found, and how it is ended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steplib.errors import UserError

if TYPE_CHECKING:
    from steplib.pairs import TestResult
    from steplib.watching.failure import Failure


@dataclass
class Run:
    """One run, while it goes on and after. done: the pairs that have a verdict."""

    stop: threading.Event = field(default_factory=threading.Event)
    is_cancelled: bool = False
    total: int = 0
    done: dict[str, TestResult] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in list(self.done.values()))

    @property
    def is_over(self) -> bool:
        return self.thread is not None and not self.thread.is_alive()

    @property
    def is_whole(self) -> bool:
        """Whether each pair has a verdict."""
        return 0 < self.total <= len(self.done)

    def cancel(self) -> None:
        """End it, whatever it is at."""
        self.is_cancelled = True
        self.stop.set()


def reason(error: BaseException) -> str:
    """What kept a run from its end, in a sentence; a fault of the tool is raised."""
    if isinstance(error, UserError):
        return str(error)
    raise error
