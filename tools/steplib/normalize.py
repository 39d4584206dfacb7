"""What a program prints, made the same on every machine: no times, paths or long hashes.

A number that changes from run to run is shown as `…`: every one with a unit of time or speed.
Other units are masked on request, since only the page's author knows what changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

CHANGING = (
    "s", "sec", "second", "seconds", "ms", "µs", "us", "ns", "min", "minutes",
    "tokens/s", "token/s", "tok/s", "requests/s", "GB/s", "MB/s", "GiB/s", "MiB/s",
    "GFLOP/s", "TFLOP/s", "x", "times faster",
)  # fmt: skip
_NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b")
_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def without_folders(text: str, folders: dict[Path, str]) -> str:
    """`text` with each folder of this machine called by the name that it has for a reader."""
    for folder in sorted(folders, key=lambda path: -len(str(path))):
        text = text.replace(str(folder), folders[folder])
    return text


def normalized(text: str, units: Iterable[str] = ()) -> str:
    """`text` for a page; numbers before one of `units` are masked as well."""
    text = _HASH.sub("…", _COLOR.sub("", text).replace("\r\n", "\n"))
    text = _masked(text, [*CHANGING, *units])
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def _masked(text: str, units: list[str]) -> str:
    """`…` for each number before one of these units; a padded column keeps its width."""
    names = "|".join(re.escape(unit) for unit in sorted(units, key=len, reverse=True))
    pattern = re.compile(rf"(?P<pad> *)(?P<number>{_NUMBER})(?= ?(?:{names})(?![\w/]))")
    return pattern.sub(_mask, text)


def _mask(found: re.Match[str]) -> str:
    pad = found["pad"]
    return "…".rjust(len(found[0])) if len(pad) > 1 else pad + "…"


def is_same(one: str, other: str) -> bool:
    """Equal but for the width of blanks, which padding around a masked number may change."""
    return one.split() == other.split()
