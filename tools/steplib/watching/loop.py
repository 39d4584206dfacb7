"""The loop of `watch`: saves and keys come in, runs go out, one at a time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steplib.errors import UserError
from steplib.watching import failure
from steplib.watching.quick import Quick
from steplib.watching.run import Run, reason
from steplib.watching.saves import Settling, Snapshot, snapshot
from steplib.watching.wake import Wake

if TYPE_CHECKING:
    from steplib.watching.failure import Failure
    from steplib.watching.full import Full
    from steplib.watching.keys import Keys
    from steplib.watching.screen import Screen

SOON = 2.4
"""Seconds after which a run that goes on says how far it is."""
HELP = "  h hint   n next failure   a run all   q quit"


@dataclass
class Loop:
    """hint: the text of one step more for a failure. start_full: starts the full tier."""

    quick: Quick
    keys: Keys
    screen: Screen
    hint: Callable[[Failure], str]
    start_full: Callable[[], Full]
    wake: Wake = field(default_factory=Wake)
    saves: Settling = field(default_factory=Settling)
    run: Run | None = None
    full: Full | None = None
    last: Run | None = None
    failures: list[Failure] = field(default_factory=list)
    shown: int = 0
    checked: Snapshot | None = None
    is_due: bool = False
    is_told: bool = False

    def forever(self) -> None:
        """Until q or Ctrl-C; whatever runs then is ended."""
        try:
            self._begin()
            while self._step():
                pass
        finally:
            self._stop()

    def saved(self) -> None:
        """Something in the folder changed; called from other threads."""
        self.is_due = True
        self.wake()

    def _step(self) -> bool:
        fds = [self.wake.fd] + ([self.keys.fd] if self.keys.fd is not None else [])
        ready = select.select(fds, [], [], self._patience())[0]
        if self.wake.fd in ready:
            self.wake.clear()
        if self.is_due:
            self.is_due = False
            self.saves.put()
        if self.keys.fd in ready and not all(map(self._key, self.keys.read())):
            return False
        self._look()
        if self.saves.take():
            self._changed()
        return True

    def _patience(self) -> float | None:
        """Seconds until there is something to do anyway; a busy line is drawn anew meanwhile."""
        waits = [self.saves.left, 0.2 if self.run or self.full else None]
        return min((wait for wait in waits if wait is not None), default=None)

    def _begin(self, before: Run | None = None) -> None:
        """A run on the files as they are now."""
        self.checked = snapshot(self.quick.folder)
        self.is_told = False
        self.run = self.quick.begin(self.wake, before)

    def _changed(self) -> None:
        """A save is over: a run that goes on is of no use any more; a full one comes to its end."""
        if snapshot(self.quick.folder) == self.checked:
            return
        self.checked = None
        if self.run is not None:
            self.run.cancel()
        elif self.full is None:
            self._begin()

    def _look(self) -> None:
        """What the run that goes on has come to."""
        if self.run is not None:
            if self.run.is_over:
                self._over(self.run)
            else:
                self._busy(self.run)
        if self.full is not None and self.full.is_over:
            self._full_over(self.full)

    def _over(self, run: Run) -> None:
        self.run = None
        if run.error is not None:
            self.screen.say(f"error: {reason(run.error)}")
        elif not run.is_cancelled:
            self._tell(run)
        if self.checked is None:  # saved meanwhile: once more
            self._begin()

    def _busy(self, run: Run) -> None:
        passed = run.count("passed")
        count = f"{passed} of {run.total} pairs passed"
        if self.is_told or time.monotonic() - run.begun < SOON or not passed:
            self.screen.busy(count if run.done else "getting ready")
        elif not run.stop.is_set():
            self.is_told = True
            self.screen.say(f"no failure so far: {count}; the others are still running")

    def _tell(self, run: Run) -> None:
        """The outcome, with the first failure."""
        self.last, self.failures, self.shown = run, run.failures, 0
        passed, skipped = run.count("passed"), run.count("skipped")
        counts = f"{passed} of {run.total} pairs passed"
        counts += f", {skipped} skipped" if skipped else ""
        if self.failures and not run.is_whole:
            counts = f"stopped at a failure; so far {counts}"
        self.screen.head(f"{counts if run.total else 'no pair was run'}, in {run.seconds:.1f} s")
        if not self._next() and run.is_whole:
            self.screen.say("PASSED  what can be checked quickly; main, parity and types: press a")
        self._help()

    def _next(self) -> bool:
        """Show the next failure of the last run, if it has one more."""
        if self.shown >= len(self.failures):
            return False
        self.screen.say(*self.failures[self.shown].lines())
        self.shown += 1
        return True

    def _help(self) -> None:
        if self.keys.fd is not None:
            self.screen.say(HELP)

    def _key(self, key: str) -> bool:
        """False to leave."""
        actions = {"h": self._hint, "n": self._more, "a": self._all}
        if key in actions:
            actions[key]()
        return key != "q"

    def _hint(self) -> None:
        if not self.failures:
            self.screen.say("there is no failure to give a hint for")
            return
        try:
            self.screen.say(self.hint(self.failures[max(0, self.shown - 1)]))
        except UserError as error:
            self.screen.say(f"no hint: {error}")

    def _more(self) -> None:
        """The next failure; a quick run stopped at its first, so it goes on from there."""
        if self.run is not None or self.full is not None:
            return
        if self._next():
            self._help()
        elif self.last is not None and self.last.total > len(self.last.done):
            self._begin(self.last)
        else:
            self.screen.say("there is no other failure")

    def _all(self) -> None:
        """The full tier, in place of a quick run that goes on."""
        if self.full is not None:
            return
        if self.run is not None:
            self._wait_for(self.run)
        self.screen.head("everything, as check does it")
        self.checked = snapshot(self.quick.folder)
        self.last, self.full = None, self.start_full()

    def _full_over(self, full: Full) -> None:
        self.full = None
        facts = full.facts()
        if facts is not None:
            self.failures = failure.of_report(self.quick.book, facts)
            self.shown = min(1, len(self.failures))  # the report shows the first
        self._help()
        if self.checked is None:
            self._begin()

    def _wait_for(self, run: Run) -> None:
        run.cancel()
        assert run.thread is not None
        run.thread.join()
        self.run = None

    def _stop(self) -> None:
        if self.run is not None:
            self._wait_for(self.run)
        if self.full is not None:
            self.full.cancel()
            self.full.facts()
