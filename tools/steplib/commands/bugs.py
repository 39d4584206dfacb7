"""`bugs`: which rows of the list of public faults have a test."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import bugs


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Print each area with its rows; 1 where a test is marked with an id that is not listed."""
    rows, marks = bugs.load(), bugs.marks(book_root.resolve())
    areas: dict[str, list[bugs.Bug]] = {}
    for bug in rows:
        areas.setdefault(bug.area, []).append(bug)
    for area, group in areas.items():
        covered = sum(bug.id in marks for bug in group)
        print(f"{area}: {covered} of {len(group)}")
        for bug in group:
            print(f"  {bug.id:<5} {bug.title}")
            for test in marks.get(bug.id, ["no test yet"]):
                print(f"        {test}")
    print(f"in all: {sum(bug.id in marks for bug in rows)} of {len(rows)} rows have a test")
    unknown = sorted(set(marks) - {bug.id for bug in rows})
    for bug_id in unknown:
        print(f"{', '.join(marks[bug_id])}: there is no row {bug_id}; mend the mark")
    return 1 if unknown else 0
