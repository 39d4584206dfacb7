"""References from transformers: one per model and prompt set, computed once and kept."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from steplib.cache import library_versions
from steplib.errors import UserError
from steplib.models import digest
from steplib.paths import cache_dir, sha256
from steplib.process import THREADS, environment, running, stop
from steplib.prompts import PromptSet

if TYPE_CHECKING:
    import numpy as np

_KEPT = 40  # references are some megabytes each; the oldest go first
_CHILD = Path(__file__).with_name("oracle_child.py")


class Reference(Protocol):
    """What transformers says: tokens[p][t], the row of logits that token was taken from.

    noise: how far transformers is from itself. std: the standard deviation of its logits.
    """

    @property
    def tokens(self) -> Sequence[Sequence[int]]: ...
    @property
    def noise(self) -> float: ...
    @property
    def std(self) -> float: ...
    def logits(self, prompt: int, position: int) -> Sequence[float]: ...


class References(Protocol):
    """Where references come from; the tool's tests put recorded ones in its place."""

    def prepare(self, wanted: list[tuple[Path, PromptSet]]) -> None: ...
    def reference(self, folder: Path, prompts: PromptSet) -> Reference: ...


@dataclass(frozen=True)
class Kept:
    """A reference read from its .npz; rows of logits are read when they are asked for."""

    path: Path

    @cached_property
    def _data(self) -> Any:
        import numpy as np

        return np.load(self.path)

    @cached_property
    def tokens(self) -> list[list[int]]:
        tokens: list[list[int]] = self._data["tokens"].tolist()
        return tokens

    @cached_property
    def noise(self) -> float:
        return float(self._data["noise"])

    @cached_property
    def std(self) -> float:
        return float(self._data["std"])

    @cached_property
    def _rows(self) -> dict[int, np.ndarray]:
        return {}

    def logits(self, prompt: int, position: int) -> Any:
        if prompt not in self._rows:
            self._rows[prompt] = self._data[f"logits_{prompt}"]
        return self._rows[prompt][position]


class Oracle:
    """Asks transformers, in a process of its own, for what isn't kept yet."""

    def __init__(self, root: Path, threads: int = 1, say: Callable[[str], None] | None = None):
        self.folder = cache_dir(root) / "oracle"
        self.threads, self.say = threads, say or (lambda line: None)
        self.lock = threading.Lock()

    def place(self, folder: Path, prompts: PromptSet) -> Path:
        """Where the reference is kept: named by model, prompts, libraries and this program."""
        parts = [digest(folder), prompts.lists(), prompts.max_tokens, _CHILD.read_text()]
        whole = json.dumps([parts, library_versions()]).encode()
        return self.folder / f"{folder.name}-{sha256(whole)[:24]}.npz"

    def reference(self, folder: Path, prompts: PromptSet) -> Reference:
        """The reference; it is computed now when it isn't kept."""
        place = self.place(folder, prompts)
        if not place.exists():
            self.prepare([(folder, prompts)])
        return Kept(place)

    def prepare(self, wanted: list[tuple[Path, PromptSet]]) -> None:
        """Compute what is missing of `wanted`, all in one process."""
        with self.lock:  # whoever comes second finds it done
            missing = [
                {"model": str(folder), "prompts": prompts.lists(),
                 "max_tokens": prompts.max_tokens, "out": str(place)}
                for folder, prompts in wanted
                if not (place := self.place(folder, prompts)).exists()
            ]  # fmt: skip
            if missing:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._ask(missing)
                self._prune()

    def forward(
        self, folder: Path, prompts: list[list[int]], tokens: list[list[int]], out: Path
    ) -> None:
        """Write the logits of given tokens after each prompt to `out`, an .npz."""
        job = {"model": str(folder), "prompts": prompts, "tokens": tokens, "out": str(out)}
        self._ask([job])

    def _ask(self, jobs: list[dict[str, Any]]) -> None:
        names = [Path(job["model"]).name for job in jobs]
        self.say(f"transformers answers for {', '.join(names)}")
        done, problem = asked(_CHILD, jobs, self.threads)
        if problem:
            name = names[min(done.count(b'"done"'), len(names) - 1)]
            raise UserError(f"transformers could not answer for {name}: {problem}")

    def _prune(self) -> None:
        files = sorted(self.folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
        for old in files[:-_KEPT]:
            old.unlink(missing_ok=True)


def asked(script: Path, jobs: object, threads: int = THREADS) -> tuple[bytes, str]:
    """Run a script that imports transformers, with jobs as JSON on its standard input.

    What it printed, and the last line of what went wrong, "" where nothing did.
    """
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [sys.executable, "-I", str(script)], stdin=pipe, stdout=pipe, stderr=pipe,
        env=environment(threads=threads), start_new_session=True,
    )  # fmt: skip
    running.add(child.pid)
    try:
        done, said = child.communicate(json.dumps(jobs).encode())
    finally:
        stop(child)
    if not child.returncode:
        return done, ""
    lines = said.decode(errors="replace").strip().splitlines()
    return done, (lines or [f"exit code {child.returncode}"])[-1]
