"""How many mutants each chapter's check notices, as a table for the handbook.

    python tools/steps.py mutate all --json all.json
    python tools/bench/mutants.py all.json [MORE.json ...] [--write]

Each file is what `mutate --json` wrote; of a chapter that is in several, the last one counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools")]

from bench import result  # noqa: E402

WORDS = ("caught", "timed out", "equivalent", "survived")
COLUMNS = ["chapter", "mutants", "tried", *WORDS, "noticed"]


def row(chapter: dict[str, Any]) -> list[result.Cell]:
    """One chapter's counts, and the share that was noticed among all but the equivalent."""
    counts = [int(chapter["counts"].get(word, 0)) for word in WORDS]
    sizes = [int(chapter["total"]), int(chapter["tried"])]
    return [f"{chapter['chapter']:02d}", *sizes, *counts, f"{chapter['share']:.0%}"]


def main() -> None:
    """Read the files, show the table, and keep it when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", help="what mutate --json wrote")
    parser.add_argument("--write", action="store_true", help="keep it in tools/bench/results")
    args = parser.parse_args()
    found: dict[int, dict[str, Any]] = {}
    for file in args.files:
        chapters = json.loads(Path(file).read_text(encoding="utf-8"))["chapters"]
        found |= {chapter["chapter"]: chapter for chapter in chapters}
    rows = [row(found[number]) for number in sorted(found)]
    result.show(COLUMNS, rows)
    if args.write:
        result.write("mutants", "python tools/steps.py mutate all --seed 0", COLUMNS, rows)


if __name__ == "__main__":
    main()
