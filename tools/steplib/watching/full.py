"""The full tier: the command `check` in a process of its own, so that it is the same in all."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steplib.paths import ROOT

_GRACE = 10.0
"""Seconds that the process has to end its own children."""


class Full:
    """One run of `check`; what it prints goes where ours goes."""

    def __init__(self, words: Sequence[str]) -> None:
        self._folder = tempfile.mkdtemp(prefix="minisgl-facts-")
        self._facts = Path(self._folder, "facts.json")
        command = [sys.executable, str(ROOT / "tools" / "steps.py"), *words]
        words = [*command, "--json", str(self._facts)]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL)

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def cancel(self) -> None:
        """End it as Ctrl-C would, or for good when that doesn't help."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def facts(self) -> dict[str, Any] | None:
        """What it found; None where it didn't come that far."""
        try:
            data: dict[str, Any] = json.loads(self._facts.read_bytes())
            return data
        except (OSError, ValueError):
            return None
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
