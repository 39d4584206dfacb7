"""What a reader sees while files are watched: rich in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_STYLES = {
    "FAILED": "bold red",
    "PASSED": "bold green",
    "  expected": "green",
    "  got": "red",
    "  read": "cyan",
}


class Screen:
    """Prints lines as they come; `busy` shows in a terminal what goes on, until the next line."""

    def __init__(self) -> None:
        self._console = _console()
        self._status: Status | None = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.quiet()

    def head(self, said: str) -> None:
        """A new run's first line, with the time of day."""
        now = time.strftime("%H:%M:%S")
        self.quiet()
        if self._console is None:
            print(f"\n{now}  {said}", flush=True)
        else:
            self._console.print(f"\n{now}  {said}", style="bold", markup=False, highlight=False)

    def say(self, *lines: str) -> None:
        """Print lines; the first word tells the color."""
        self.quiet()
        for line in lines:
            if self._console is None:
                print(line, flush=True)
                continue
            style = next((s for word, s in _STYLES.items() if line.startswith(word)), None)
            self._console.print(
                line, style=style, markup=False, highlight=False, emoji=False, soft_wrap=True
            )

    def busy(self, said: str) -> None:
        """What goes on; in a terminal only."""
        if self._console is None:
            return
        if self._status is None:
            self._status = self._console.status(said)
            self._status.start()
        else:
            self._status.update(said)

    def quiet(self) -> None:
        """Take the busy line away, with the cursor shown again."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def _console() -> Console | None:
    """None where stdout is no terminal, or rich isn't there."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:  # rich is one of the dev extras
        return None
    return Console()
