"""Where code under test runs: a temporary folder with one tree and the files beside it."""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from steplib.errors import UserError
from steplib.outcome import Job
from steplib.paths import ROOT
from steplib.testfiles import check_fake
from steplib.tree import Tree

SHARED = ("steps/book.py", "tests/pairs.py")
"""What mains and test files import; always beside them."""


@dataclass(frozen=True)
class Stage:
    """tree: the assembled tree. scratch: copies of main, tests and what they share."""

    tree: Path
    scratch: Path
    root: Path

    def job(
        self,
        kind: Literal["main", "generate", "probes"],
        body: dict[str, Any],
        coverage: bool = False,
        second_process: bool = False,
    ) -> Job:
        """A job on this stage."""
        return Job(kind, self.tree, self.scratch, self.root, body, coverage, second_process)


@contextmanager
def staged(tree: Tree, root: Path, sources: Iterable[Path]) -> Iterator[Stage]:
    """A stage with `tree` and copies of `sources`; it is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="minisgl-") as folder:
        base = Path(folder).resolve()
        scratch = base / "scratch"
        scratch.mkdir()
        tree.write(base / "tree")
        sources = [*shared_files(root), *sources]
        for source in sources:
            if not source.is_file():
                raise UserError(f"{source} is missing; write it.")
        for source in (*sources, *fakes(root, sources)):
            shutil.copyfile(source, scratch / source.name)
        yield Stage(base / "tree", scratch, root)


def fakes(root: Path, sources: Iterable[Path]) -> list[Path]:
    """The files of tests/fakes that the sources import, at any depth of their code; each sound."""
    folder = root / "tests" / "fakes"
    if not folder.is_dir():
        return []
    names = {name for source in sources for name in _imported(source)}
    found = sorted(folder / f"{n}.py" for n in names if (folder / f"{n}.py").is_file())
    for path in found:
        check_fake(path)
    return found


def _imported(source: Path) -> Iterator[str]:
    try:
        module = ast.parse(source.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return  # said where the file is checked
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def shared_files(root: Path) -> list[Path]:
    """book.py and pairs.py: the book's own, or this tool's where a book brings none."""
    return [(root if (root / name).is_file() else ROOT) / name for name in SHARED]
