"""`models`: list the checkpoints, make the tiny ones, fetch the real ones."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import models
from steplib.errors import UserError


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Print a table, or a line for each checkpoint that is made or fetched."""
    if args.action == "list":
        return _list()
    from steplib.checkpoints.making import provide

    here = []
    for name in [args.name] if args.name else _all_for(args.action):
        _refuse_wrong_verb(args.action, name)
        line = provide(name)
        here += [] if line else [name]
        if line:
            print(line, flush=True)
    if here:
        print(f"here already: {', '.join(here)}")
    return 0


def _list() -> int:
    rows = [("NAME", "SIZE", "STATE", "WHAT")]
    troubles = []
    for name in models.names():
        trouble = models.problem(name) if models.present(name) else None
        troubles += [trouble] if trouble else []
        state = "damaged" if trouble else "present" if models.present(name) else "absent"
        rows.append((name, _size(name), state, models.checkpoint(name).what))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print(f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:{widths[2]}}  {row[3]}")
    for trouble in troubles:
        print(trouble)
    return 1 if troubles else 0


def _size(name: str) -> str:
    files = models.folder(name).rglob("*") if models.present(name) else []
    size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    return f"{size or models.checkpoint(name).megabytes:,.0f} MB"


def _all_for(action: str) -> list[str]:
    return [name for name in models.names() if _verb(name) == action]


def _refuse_wrong_verb(action: str, name: str) -> None:
    if action != _verb(name):
        raise UserError(f"{name} can't be had by `{action}`; run `{models.checkpoint(name).mend}`.")


def _verb(name: str) -> str:
    return "make" if models.checkpoint(name).how == "tiny" else "fetch"
