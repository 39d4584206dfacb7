#!/usr/bin/env python3
"""Draws the book's figures into docs/figures: `python tools/diagrams.py [--check] [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import figures  # noqa: E402
from steplib.paths import ROOT, shown, write_atomically  # noqa: E402

FOLDER = ROOT / "docs" / "figures"
HELPERS = {"step_grid", "svg", "traces"}


def names() -> list[str]:
    """Every figure, as its file is called."""
    modules = (module.name for module in pkgutil.iter_modules(figures.__path__))
    return sorted(name.replace("_", "-") for name in modules if name not in HELPERS)


def drawn(name: str) -> str:
    """The SVG of one figure."""
    module = importlib.import_module(f"figures.{name.replace('-', '_')}")
    text: str = module.draw().svg()
    return text


def stale(folder: Path = FOLDER) -> list[str]:
    """What is wrong with the committed figures, a sentence each."""
    wrong = []
    for name in names():
        file = folder / f"{name}.svg"
        if not file.is_file():
            wrong.append(f"{file.name} is missing")
        elif file.read_text(encoding="utf-8") != drawn(name):
            wrong.append(f"{file.name} is not what tools/figures draws")
    strangers = {file.stem for file in folder.glob("*.svg")} - set(names())
    return wrong + [f"{name}.svg has no module in tools/figures" for name in sorted(strangers)]


def main() -> int:
    """Write the figures, or with --check fail on one that is stale."""
    parser = argparse.ArgumentParser(description="Draws the book's figures into docs/figures.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(names())}")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a stale one")
    args = parser.parse_args()
    unknown = set(args.names) - set(names())
    if unknown:
        parser.error(f"there is no figure {sorted(unknown)[0]}; there are {', '.join(names())}")
    if args.check:
        return _check()
    for name in args.names or names():
        write_atomically(FOLDER / f"{name}.svg", drawn(name))
        print(shown(FOLDER / f"{name}.svg", ROOT))
    return 0


def _check() -> int:
    wrong = stale()
    for sentence in wrong:
        print(f"docs/figures: {sentence}; run: python tools/diagrams.py")
    if not wrong:
        print(f"{len(names())} figures are fresh.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
