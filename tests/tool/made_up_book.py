"""A small book of three chapters in a folder of its own, to break in one place at a time.

Chapter 00 has the engine outside the package, 01 creates minisgl/core.py, and 02 creates
minisgl/ops.py and modifies minisgl/core.py. The folder names are those of the plan.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from steplib.book import Book
from steplib.errors import Problem
from steplib.paths import ROOT

NAMES = ("00-minimal-engine", "01-core-data-structures", "02-op-layer")

MANIFESTS = (
    'number = 0\nslug = "minimal-engine"\ncreates = ["minimal_engine.py"]\n',
    'number = 1\nslug = "core-data-structures"\n'
    'creates = ["minisgl/__init__.py", "minisgl/core.py"]\n',
    'number = 2\nslug = "op-layer"\ncreates = ["minisgl/ops.py"]\nmodifies = ["minisgl/core.py"]\n',
)

CORE = """\
def first() -> int:
    return 1


def middle() -> str:
    return "unchanged"


def last() -> int:
    return 3
"""
CORE_OF_02 = CORE + "\n\ndef added() -> int:\n    return 4\n"
OPS = "from minisgl.core import added\n\n\ndef double(x: int) -> int:\n    return x * added()\n"
ENGINE = "def generate(prompt: list[int]) -> list[int]:\n    return prompt\n"


class MadeUpBook:
    """Writes a sound book below `root`; each method changes one thing in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for number, manifest in enumerate(MANIFESTS):
            self.manifest(number, manifest)
            self.write(f"steps/{NAMES[number]}/main.py", '"""Shows the chapter\'s point."""\n')
        self.write("steps/00-minimal-engine/files/minimal_engine.py", ENGINE)
        self.write("steps/01-core-data-structures/files/minisgl/core.py", CORE)
        self.write("minisgl/__init__.py", "")
        self.write("minisgl/core.py", CORE_OF_02)
        self.write("minisgl/ops.py", OPS)
        self.refresh()

    def write(self, path: str, text: str) -> Path:
        """Write a file below the book's root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def read(self, path: str) -> str:
        """A file's text."""
        return (self.root / path).read_text(encoding="utf-8")

    def append(self, path: str, text: str) -> Path:
        """Write more at a file's end."""
        return self.write(path, self.read(path) + text)

    def remove(self, path: str) -> None:
        """Delete a file."""
        (self.root / path).unlink()

    def manifest(self, number: int, text: str) -> Path:
        """Write a chapter's step.toml anew."""
        return self.write(f"steps/{NAMES[number]}/step.toml", text)

    def refresh(self) -> None:
        """Write every TREE as it should be."""
        book = self.load()
        for chapter in book.chapters:
            self.write(f"steps/{chapter.name}/TREE", book.tree(chapter.number).text())

    def share(self) -> None:
        """Copy in what the real mains and test pairs share."""
        for path in ("steps/book.py", "tests/pairs.py"):
            self.write(path, (ROOT / path).read_text(encoding="utf-8"))

    def load(self) -> Book:
        """The book as it is now."""
        return Book.load(self.root)

    def commit(self) -> None:
        """Put all of it into a git commit."""
        who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "state"]):
            subprocess.run(["git", *words], cwd=self.root, check=True)

    def contents(self) -> dict[str, bytes]:
        """Every file but git's, to see that nothing changed."""
        files = (path for path in self.root.rglob("*") if path.is_file())
        names = {path.relative_to(self.root).as_posix(): path for path in files}
        return {name: p.read_bytes() for name, p in names.items() if not name.startswith(".git/")}


def shown(problems: list[Problem]) -> str:
    """Problems as a reader sees them, one a paragraph."""
    return "\n\n".join(f"{p.check}: {p.where}\n{p.message}\n{p.mend}" for p in problems)
