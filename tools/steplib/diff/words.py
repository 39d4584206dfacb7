"""The words that terminal and page share."""

from __future__ import annotations

from collections.abc import Iterable

from steplib.diff.compare import Change, Comparison
from steplib.diff.hunks import Hunk

LABELS = {
    "unwritten": "not written yet",
    "missing": "missing",
    "extra": "extra",
    "signature": "signature",
    "body": "body",
    "cpu": "CPU support",
    "fault": "fault mended",
    "simplification": "simplification",
    "design": "other design",
}


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `2 bodies`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def summary(found: Comparison) -> str:
    """How many files are the same, and what differs in the others."""
    files = found.files
    same, faults = sum(f.is_same for f in files), sum(bool(f.fault) for f in files)
    parts = [counted(len(files), "file")]
    parts += [f"{same} as in {found.place}"] if same else []
    parts += [f"{faults} not compared"] if faults else []
    changes = [change for file in files for change in file.changes]
    kinds = ["helper" if change.is_aside else change.kind for change in changes]
    tally = {
        "missing": f"{kinds.count('missing')} missing",
        "extra": f"{kinds.count('extra')} extra",
        "signature": counted(kinds.count("signature"), "other signature"),
        "body": counted(kinds.count("body"), "other body"),
        "unwritten": f"{kinds.count('unwritten')} not written yet",
        "helper": counted(kinds.count("helper"), "private helper"),
    }
    return ", ".join([*parts, *(text for kind, text in tally.items() if kind in kinds)])


def place(hunk: Hunk) -> str:
    """`your line 12, their line 20`: where the rows begin in either file."""
    ours = next((row.ours for row in hunk if row.ours), None)
    theirs = next((row.theirs for row in hunk if row.theirs), None)
    parts = [f"your line {ours}" if ours else "", f"their line {theirs}" if theirs else ""]
    return ", ".join(filter(None, parts))


def asides(changes: Iterable[Change]) -> list[tuple[str, str]]:
    """What is told in one line each: bodies that are not written yet, private names of one side."""
    by_label: dict[str, list[str]] = {}
    for change in changes:
        if change.kind == "unwritten":
            by_label.setdefault(LABELS["unwritten"], []).append(change.name)
        elif change.is_aside:
            whose = "private, theirs" if change.kind == "missing" else "private, yours"
            by_label.setdefault(whose, []).append(change.name)
    return [(label, ", ".join(names)) for label, names in by_label.items()]
