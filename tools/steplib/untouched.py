"""How much of what a chapter adds is run by its own main and tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from steplib.errors import UserError
from steplib.facts import Finding, Result, failed

if TYPE_CHECKING:
    from steplib.book import Book

CHECK = "untouched"
LEAST = 0.9
_PRAGMA = re.compile(r"#\s*pragma:\s*no[ -]?cover", re.IGNORECASE)
_NEVER_RUN = (r"^\s*if (typing\.)?TYPE_CHECKING:", r"^\s*\.\.\.\s*$")


@dataclass
class Touch:
    """One file's added executable lines, those of them that never ran, and its pragmas."""

    path: str
    added: set[int]
    missed: set[int] = field(default_factory=set)
    pragmas: int = 0


def added_lines(book: Book, number: int) -> dict[str, set[int]]:
    """By path, the lines that the chapter adds: all of a created file, new ones of a modified."""
    tree = book.tree(number)
    added = {}
    for path, file in tree.files.items():
        if file.mark == "created":
            added[path] = set(range(1, file.text().count("\n") + 2))
        elif file.mark == "modified":
            added[path] = _new_lines(_previous(book, number, path), file.text())
    return {path: lines for path, lines in added.items() if path.endswith(".py")}


def _previous(book: Book, number: int, path: str) -> str:
    """The form that the chapter before had."""
    earlier = [c.number for c in book.chapters if c.number < number]
    files = book.tree(earlier[-1]).files if earlier else {}
    return files[path].text() if path in files else ""


def _new_lines(before: str, after: str) -> set[int]:
    old, new = before.splitlines(), after.splitlines()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return {i + 1 for kind, _, _, low, high in blocks if kind != "equal" for i in range(low, high)}


def touches(book: Book, number: int, executed: dict[str, set[int]]) -> list[Touch]:
    """For each file that the chapter adds to, which added lines were not among `executed`."""
    tree, found = book.tree(number), []
    for path, lines in added_lines(book, number).items():
        text = tree.files[path].text()
        statements, missed = _analysis(text, executed.get(path, set()))
        rows = text.splitlines()
        pragmas = sum(bool(_PRAGMA.search(rows[i - 1])) for i in lines if i <= len(rows))
        found.append(Touch(path, statements & lines, missed & lines, pragmas))
    return found


def _analysis(text: str, executed: set[int]) -> tuple[set[int], set[int]]:
    """The executable lines of a file as coverage.py counts them, and those that never ran."""
    try:
        import coverage
    except ImportError:
        raise UserError('coverage is missing; run: pip install -e ".[dev]"') from None
    with TemporaryDirectory(prefix="lines-") as folder:
        file = Path(folder).resolve() / "file.py"
        file.write_text(text, encoding="utf-8")
        measured = coverage.Coverage(data_file=None, config_file=False)
        measured.clear_exclude()  # its own list would let `pragma: no cover` hide lines
        for pattern in _NEVER_RUN:
            measured.exclude(pattern)
        measured.get_data().add_lines({str(file): sorted(executed)})
        _, statements, _, missed, _ = measured.analysis2(str(file))
    return set(statements), set(missed)


def check(book: Book, number: int, executed: dict[str, set[int]]) -> Result:
    """At least 90% of the added executable lines ran. executed: by path, from main and tests."""
    found = touches(book, number, executed)
    total = sum(len(touch.added) for touch in found)
    missed = sum(len(touch.missed) for touch in found)
    pragmas = sum(touch.pragmas for touch in found)
    share = 1.0 if not total else (total - missed) / total
    summary = f"{share:.0%} of {total} added lines run"
    if pragmas:
        summary += f" ({pragmas} marked `pragma: no cover`; they count)"
    data = {"lines_added": total, "lines_missed": missed, "pragmas": pragmas}
    if share >= LEAST:
        return Result(CHECK, summary=summary, data=data)
    worst = sorted((t for t in found if t.missed), key=lambda t: -len(t.missed))
    finding = Finding(
        "too many lines that the chapter adds are run by neither its main nor its tests.",
        expected=f"at least {LEAST:.0%} of {total}",
        got=f"{share:.0%}; never run: {'; '.join(map(_shown, worst[:3]))}",
        mend="Test them, or bring them in the chapter that needs them.",
    )
    return failed(CHECK, finding, summary=summary, data=data)


def _shown(touch: Touch) -> str:
    return f"{touch.path}:{_ranges(touch.missed)}"


def _ranges(lines: Iterable[int]) -> str:
    """3-5,9 for the lines 3, 4, 5 and 9."""
    groups: list[list[int]] = []
    for line in sorted(lines):
        if groups and line == groups[-1][-1] + 1:
            groups[-1].append(line)
        else:
            groups.append([line])
    return ",".join(f"{g[0]}-{g[-1]}" if g[1:] else str(g[0]) for g in groups)
