"""mypy on each assembled tree: `static` proves names, and this methods and keywords.

All trees share one cache. mypy keys it by a file's path inside the tree and its content, so that
only the first run pays for reading torch (about 10 s); a tree costs about 1 s after that.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.errors import Problem, UserError
from steplib.manifest import Later
from steplib.mine import MyBook
from steplib.paths import cache_dir, shown
from steplib.static import later_entries

if TYPE_CHECKING:
    from steplib.book import Book, Tree

CHECK = "types"
_NO_ATTRIBUTE = re.compile(r'Module "(?P<module>[\w.]+)" has no attribute "(?P<name>\w+)"')

# transformers and its friends take 25 s to read and would add nothing about our own names;
# whatever comes from them counts as Any here, so returning it can't be an error
_CONFIG = """[mypy]
strict = True
python_version = 3.11
warn_unused_ignores = False
warn_return_any = False
disallow_untyped_calls = False
ignore_missing_imports = True
[mypy-transformers.*,tokenizers.*,safetensors.*,huggingface_hub.*]
follow_imports = skip
[mypy-minisgl.*]
ignore_missing_imports = False
"""


def type_problems(book: Book, wanted: int | str) -> list[Problem]:
    """What mypy says about the chapter's tree; each problem with the form's own file and line."""
    tree = book.tree(wanted)
    if not any(path.startswith("minisgl/") for path in tree.files):
        return []
    later = later_entries(book, tree.chapter.number)
    with tempfile.TemporaryDirectory(prefix="types-") as folder, _turn():
        _lay_out(tree, Path(folder))
        findings = _mypy(Path(folder), _configuration(later))
    return [
        _problem(book, tree, finding)
        for finding in findings
        if finding["severity"] == "error" and not _is_listed(str(finding["message"]), later)
    ]


def _lay_out(tree: Tree, folder: Path) -> None:
    """Write the tree with times made from content: mypy believes an equal time and size unread,
    and two trees of one second may well have files of one size."""
    tree.write(folder)
    for path, file in tree.files.items():
        time = int(file.sha256[:8], 16) >> 2
        os.utime(folder / path, (time, time))


@contextmanager
def _turn() -> Iterator[None]:
    """One mypy at a time: two that write one cache would both read torch, and then collide."""
    with open(cache_dir() / "mypy.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _configuration(later: list[Later]) -> str:
    modules = sorted({entry.module for entry in later})
    return _CONFIG + "".join(f"[mypy-{name}]\nignore_missing_imports = True\n" for name in modules)


def _mypy(folder: Path, configuration: str) -> list[dict[str, object]]:
    """Run mypy in `folder` on the package; its findings as it prints them in JSON."""
    (folder / ".mypy.ini").write_text(configuration, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "mypy", "--config-file", ".mypy.ini", "--output", "json"),
        *("--cache-dir", str(cache_dir() / "mypy"), "--no-error-summary", "minisgl"),
    ]
    environment = {key: value for key, value in os.environ.items() if key != "MYPYPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if "No module named mypy" in done.stderr:
        raise UserError('mypy is missing; run: pip install -e ".[dev]"')
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode > 1 and not lines:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UserError(f"mypy broke down on a tree: {said[-1] if said else 'it said nothing'}")
    return [json.loads(line) for line in lines]


def _is_listed(message: str, later: list[Later]) -> bool:
    """Whether it is about a name that [[later]] promises in a module that is already there."""
    found = _NO_ATTRIBUTE.match(message)
    return found is not None and any(
        found["module"] == entry.module and found["name"] in entry.names for entry in later
    )


def _problem(book: Book, tree: Tree, finding: dict[str, object]) -> Problem:
    file = tree.files.get(str(finding["file"]))
    where = shown(file.source, book.root) if file else str(finding["file"])
    message = f"mypy says: {finding['message']} [{finding['code']}]."
    mend = _mend(book, tree.chapter.number, str(finding["file"]))
    return Problem(CHECK, f"{where}:{finding['line']}", message, mend)


def _mend(book: Book, number: int, path: str) -> str:
    if not isinstance(book, MyBook) or path not in book.mine:
        return f"Mend it in the tree of chapter {number:02d}."
    if book.is_mine(path):
        return "Mend it in your file."
    return "This file is as the book has it: one of yours doesn't fit it."
