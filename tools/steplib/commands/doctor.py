"""`doctor`: look over this machine and say what to mend."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

from steplib.doctor import machine, software
from steplib.doctor.findings import as_table, as_text, is_sound


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Exit status 1 when something that the checks need is wrong."""
    machine.refuse_unsupported(platform.system(), platform.machine())
    found = [*machine.findings(), *software.findings()]
    print(json.dumps(as_table(found), indent=2) if args.json else as_text(found))
    return 0 if is_sound(found) else 1
