"""A comparison as one self-contained HTML page, light and dark, with a contents by symbol."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

from steplib.diff.compare import Comparison
from steplib.diff.hunks import Hunk, Row
from steplib.diff.words import LABELS, asides, summary
from steplib.webpages import templates

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Pair:
    """One line of a side-by-side view; a side without a line is None."""

    ours: Row | None
    theirs: Row | None


def page(found: Comparison) -> str:
    """The whole page; it asks for no other file."""
    jinja = templates(_TEMPLATES)
    jinja.filters |= {"pairs": lambda hunk: list(pairs(hunk)), "anchor": anchor, "begun": begun}
    template = jinja.get_template("page.html")
    return template.render(found=found, labels=LABELS, asides=asides, summary=summary(found))


def pairs(hunk: Hunk) -> Iterator[Pair]:
    """Rows side by side: what goes stands left of what comes in its place."""
    for is_equal, run in groupby(hunk, key=lambda row: row.mark == " "):
        rows = list(run)
        if is_equal:
            yield from (Pair(row, row) for row in rows)
            continue
        gone = [row for row in rows if row.mark == "-"]
        come = [row for row in rows if row.mark == "+"]
        yield from (Pair(a, b) for a, b in zip_longest(gone, come))


def anchor(*parts: str) -> str:
    """An id for a file, or for a symbol of it."""
    return re.sub(r"[^\w.]+", "-", "--".join(parts))


def begun(text: str) -> str:
    """`text` as a sentence begins."""
    return text[:1].upper() + text[1:]
