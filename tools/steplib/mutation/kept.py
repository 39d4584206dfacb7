"""Verdicts of earlier runs, written one by one, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.cache import file_sha256
from steplib.mutation.trial import Verdict
from steplib.paths import cache_dir, sha256
from steplib.stage import fakes, shared_files

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.mutation.mutant import Mutant

_OWN = [Path(__file__).with_name(f"{name}.py") for name in ("clean", "trial")]


class Kept:
    """The verdicts of one chapter, for one form of its tree, its tests and this tool."""

    def __init__(self, book: Book, chapter: Chapter, files: list[Path]) -> None:
        self.file = cache_dir(book.root) / "mutants" / f"{chapter.number:02d}.jsonl"
        sources = [chapter.main, *files, *shared_files(book.root), *fakes(book.root, files), *_OWN]
        tree = book.tree(chapter.number).sha256
        self.state = sha256("\n".join([tree, *map(file_sha256, sources)]).encode())
        self.lock = threading.Lock()
        self.verdicts: dict[str, Verdict] = {}
        self.hints: dict[str, str] = {}
        self._read()

    def _read(self) -> None:
        lines = self.file.read_text("utf-8").splitlines() if self.file.is_file() else []
        for line in lines:
            try:
                row = json.loads(line)
                verdict = Verdict(**row["verdict"])
                self.hints[row["name"]] = verdict.by
                if row["state"] == self.state:
                    self.verdicts[row["id"]] = verdict
            except (ValueError, KeyError, TypeError):
                continue  # a line that was cut off; its mutant is tried again

    def get(self, mutant: Mutant) -> Verdict | None:
        """Its verdict, where nothing that it depends on has changed since."""
        return self.verdicts.get(mutant.id)

    def hint(self, mutant: Mutant) -> str:
        """What noticed the mutant in an earlier run, also of other forms of tree and tests."""
        return self.hints.get(_name(mutant), "")

    def put(self, mutant: Mutant, verdict: Verdict) -> None:
        row = {"state": self.state, "id": mutant.id, "name": _name(mutant)}
        line = json.dumps({**row, "verdict": asdict(verdict)})
        with self.lock:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            self.verdicts[mutant.id] = verdict


def _name(mutant: Mutant) -> str:
    return sha256(repr(mutant.name).encode())[:16]
