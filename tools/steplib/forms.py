"""Keep a form for its chapter, and carry a fix in an old form through the later ones."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.errors import UserError, did_you_mean
from steplib.paths import shown, write_all, write_atomically

if TYPE_CHECKING:
    from steplib.book import Book, Form


@dataclass(frozen=True)
class Conflict:
    """Lines of a later form that were changed otherwise than the fix changes them."""

    form: Form
    lines: tuple[tuple[int, int], ...]

    def sentence(self, root: Path) -> str:
        """For example: `minisgl/core.py: lines 3 to 5 (chapter 07)`."""
        spans = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in self.lines)
        word = "line" if len(self.lines) == 1 and self.lines[0][0] == self.lines[0][1] else "lines"
        return f"{shown(self.form.source, root)}: {word} {spans} (chapter {self.form.chapter:02d})"


@dataclass(frozen=True)
class Propagation:
    """What became of a fix: the forms that took it, or the conflict that stopped it."""

    changed: tuple[Form, ...] = ()
    unchanged: tuple[Form, ...] = ()
    conflict: Conflict | None = None


def freeze(book: Book, path: str, wanted: int | str) -> Path:
    """Copy the newest form of `path` to the chapter's files/; gives the copy's place."""
    chapter = book.chapter(wanted)
    form = _form(book, path, chapter.number)
    kept = chapter.folder / "files" / path
    if kept.exists():
        raise UserError(f"{shown(kept, book.root)} exists already; nothing was changed.")
    last = book.forms(path)[-1]
    if last.number - form.number > 1:
        raise UserError(
            f"{path} is the form of chapter {last.chapter:02d} by now, so it can't be kept for "
            f"chapter {chapter.number:02d}; nothing was changed."
        )
    write_atomically(kept, _read(last.source, book.root))
    return kept


def propagate(book: Book, path: str, wanted: int | str) -> Propagation:
    """Merge what changed in the chapter's form since the last commit into each later form.

    Every form is written, or none: on a conflict nothing is changed.
    """
    form = _form(book, path, book.chapter(wanted).number)
    later = book.forms(path)[form.number :]
    if not later:
        raise UserError(
            f"Chapter {form.chapter:02d} has the last form of {path}; there is none to fix."
        )
    base, fixed = _committed(book, form), _read(form.source, book.root)
    if base == fixed:
        raise UserError(
            f"{shown(form.source, book.root)} is as it was committed; "
            "make the fix there, and run this before you commit it."
        )
    return _carry(base, fixed, later, book.root)


def _carry(base: bytes, fixed: bytes, later: list[Form], root: Path) -> Propagation:
    merged: dict[Path, str | bytes] = {}
    changed: list[Form] = []
    unchanged: list[Form] = []
    for form in later:
        current = _read(form.source, root)
        result, conflicts = _merge(current, base, fixed)
        if conflicts:
            return Propagation(conflict=Conflict(form, _conflict_lines(current, result)))
        (unchanged if result == current else changed).append(form)
        merged[form.source] = result
        base, fixed = current, result
    write_all({form.source: merged[form.source] for form in changed})
    return Propagation(tuple(changed), tuple(unchanged))


def _form(book: Book, path: str, number: int) -> Form:
    if path not in book.touches:
        raise UserError(f"No manifest lists {path}.{did_you_mean(path, book.touches)}")
    for form in book.forms(path):
        if form.chapter == number:
            return form
    touching = ", ".join(f"{form.chapter:02d}" for form in book.forms(path))
    raise UserError(f"Chapter {number:02d} has no form of {path}; these have one: {touching}.")


def _read(path: Path, root: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{shown(path, root)} is missing; write it first.") from None


def _committed(book: Book, form: Form) -> bytes:
    """The form as it is in the last commit."""
    name = shown(form.source, book.root)
    done = _git("-C", str(book.root), "show", f"HEAD:./{name}")
    if done.returncode:
        raise UserError(
            f"{name} is not in the last commit, so what the fix is can't be told; commit it first."
        )
    return done.stdout


def _merge(current: bytes, base: bytes, fixed: bytes) -> tuple[bytes, bool]:
    """git's three-way merge: the merged text, with markers where it conflicts."""
    with tempfile.TemporaryDirectory(prefix="merge-") as folder:
        names = [Path(folder, name) for name in ("current", "base", "fixed")]
        for name, data in zip(names, (current, base, fixed), strict=True):
            name.write_bytes(data)
        done = _git("merge-file", "-p", "-q", *map(str, names))
    if done.returncode > 127:  # below that it is the number of conflicts
        raise UserError(f"git merge-file failed: {done.stderr.decode().strip()}")
    return done.stdout, done.returncode > 0


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], capture_output=True)
    except FileNotFoundError:
        raise UserError("git is missing; install it and run the command again.") from None


def _conflict_lines(current: bytes, merged: bytes) -> tuple[tuple[int, int], ...]:
    """First and last line, in `current`, of each conflict that is marked in `merged`."""
    ours: list[bytes] = []  # the merge with every conflict settled as `current` has it
    spans: list[tuple[int, int]] = []
    side = "both"
    for line in merged.splitlines():
        if line.startswith(b"<<<<<<< "):
            side, start = "ours", len(ours)
        elif line == b"=======" and side == "ours":
            side = "theirs"
            spans.append((start, len(ours)))
        elif line.startswith(b">>>>>>> ") and side == "theirs":
            side = "both"
        elif side != "theirs":
            ours.append(line)
    lines = current.splitlines()
    matches = SequenceMatcher(None, ours, lines, autojunk=False).get_matching_blocks()
    places = [(_place(matches, first), last - first) for first, last in spans]
    return tuple((place + 1, place + max(length, 1)) for place, length in places)


def _place(matches: list[Match], index: int) -> int:
    """Where the line with this index of one text lies in the other, or the next one that does."""
    for ours, lines, size in matches:
        if index < ours + size:
            return lines + max(index - ours, 0)
    return matches[-1].b
