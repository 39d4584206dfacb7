"""Where one package stands while it is run: its tree, and a folder of the book's files a job."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steplib.grading import isolation
from steplib.grading.cell import Budget, Cell
from steplib.grading.halves import probes_only
from steplib.grading.isolation import Sandbox
from steplib.stage import Stage, fakes, shared_files
from steplib.warm import PRELOAD


class Bench:
    """One package in a sandbox of its own; the sandbox sees nothing else of the book."""

    def __init__(self, root: Path, base: Path, cell: Cell) -> None:
        self.root, self.base, self.cell = root, base, cell

    def stage(self, name: str, sources: list[Path], tests: Path | None = None) -> Stage:
        """A folder with these files, and with the probes' half of a test file."""
        scratch = self.base / name
        scratch.mkdir()
        halves = [tests] if tests else []
        for source in (*shared_files(self.root), *sources, *fakes(self.root, [*sources, *halves])):
            shutil.copyfile(source, scratch / source.name)
        if tests is not None:
            (scratch / tests.name).write_text(probes_only(tests), encoding="utf-8")
        _open(scratch)
        return Stage(self.base / "tree", scratch, self.root)


@contextmanager
def bench(
    root: Path, files: dict[str, bytes], models: Path, budget: Budget, slot: int
) -> Iterator[Bench]:
    """Lay the files out; folder and sandbox are gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="minisgl-") as folder:
        base = Path(folder).resolve()
        (base / "tree").mkdir()
        for path, data in files.items():
            (base / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
            (base / "tree" / path).write_bytes(data)
        base.chmod(0o755)
        _open(base / "tree")
        sandbox = Sandbox(isolation.strictest(), (base, models), slot)
        is_plain = not any(b"torch" in data for data in files.values())
        with Cell(sandbox, models, budget, () if is_plain else PRELOAD) as cell:
            yield Bench(root, base, cell)


def _open(folder: Path) -> None:
    """Readable for the sandbox's user, whatever this process's umask is."""
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(Path(place, name), 0o644)
