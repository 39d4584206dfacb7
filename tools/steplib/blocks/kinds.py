"""`kinds`: the kinds of blocks themselves, for the page that tells how to write a chapter."""

from __future__ import annotations

from steplib import blocks
from steplib.blocks.base import Request, table


def render(request: Request) -> str:
    """A table of what to write and what it gives."""
    rows = [[f"`{kind.usage}`", kind.gives] for kind in blocks.KINDS.values()]
    return table(["Block", "What it gives"], rows)
