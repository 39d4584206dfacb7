"""`regrade OLD NEW`: whose score differs between two gradings, and why."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from steplib.errors import UserError
from steplib.grading import regrade
from steplib.grading.schema import load_class

if TYPE_CHECKING:
    from steplib.grading.schema import ClassReport


def run(book_root: Path, args: argparse.Namespace) -> int:
    """0 when nobody's points changed, 1 when somebody's did."""
    found = regrade.compare(_loaded(Path(args.old)), _loaded(Path(args.new)))
    for line in regrade.lines(found):
        print(line)
    return 0 if found.is_same else 1


def _loaded(place: Path) -> ClassReport:
    file = place / "grades.json" if place.is_dir() else place
    try:
        return load_class(file)
    except FileNotFoundError:
        raise UserError(f"{file} is missing; name the --out folder of a grading.") from None
    except (ValidationError, IsADirectoryError):
        raise UserError(f"{file} is no result of grade; name its --out folder.") from None
