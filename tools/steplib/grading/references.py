"""transformers' answers for a whole class: one process, and one batch for each length of prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steplib.cache import library_versions
from steplib.errors import UserError
from steplib.models import digest
from steplib.oracle import Kept, Reference, asked
from steplib.paths import cache_dir, sha256
from steplib.prompts import PromptSet

_CHILD = Path(__file__).with_name("references_child.py")
_KEPT = 1000


class ClassReferences:
    """Like Oracle, for many small sets of prompts on the same models."""

    def __init__(self, root: Path) -> None:
        self.folder = cache_dir(root) / "references"

    def place(self, folder: Path, prompts: PromptSet) -> Path:
        """Where an answer is kept."""
        parts = [digest(folder), prompts.lists(), prompts.max_tokens, _CHILD.read_text()]
        whole = json.dumps([parts, library_versions()]).encode()
        return self.folder / f"{folder.name}-{sha256(whole)[:24]}.npz"

    def reference(self, folder: Path, prompts: PromptSet) -> Reference:
        """An answer; it is computed now when it isn't kept."""
        if not self.place(folder, prompts).exists():
            self.prepare([(folder, prompts)])
        return Kept(self.place(folder, prompts))

    def prepare(self, wanted: list[tuple[Path, PromptSet]]) -> None:
        """Compute all that is missing."""
        missing: dict[str, list[dict[str, Any]]] = {}
        for folder, prompts in dict.fromkeys(wanted):
            if not (place := self.place(folder, prompts)).exists():
                one = {"prompts": prompts.lists(), "out": str(place)}
                key = json.dumps([str(folder), prompts.max_tokens])
                missing.setdefault(key, []).append(one)
        if missing:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._ask([[*json.loads(key), sets] for key, sets in missing.items()])
            self._prune()

    def _ask(self, jobs: list[Any]) -> None:
        _, problem = asked(_CHILD, jobs)
        if problem:
            raise UserError(f"transformers could not answer for the class: {problem}")

    def _prune(self) -> None:
        files = sorted(self.folder.glob("*.npz"), key=lambda path: path.stat().st_mtime)
        for old in files[:-_KEPT]:
            old.unlink(missing_ok=True)
