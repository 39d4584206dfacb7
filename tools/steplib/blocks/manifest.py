"""`manifest NN early` and `manifest NN inert`: what a chapter borrows from later ones."""

from __future__ import annotations

from steplib.blocks.base import BlockError, Request, table
from steplib.manifest import Manifest


def render(request: Request) -> str:
    """A table of the early files, or of the inert symbols."""
    which = request.args[-1] if request.args else ""
    if which not in TABLES:
        raise BlockError("Say which list: manifest NN early, or manifest NN inert.")
    named = request.chapter(0) if len(request.args) > 1 else request.chapter(1)
    head, rows = TABLES[which](named.manifest)
    return table(head, rows) if rows else "—"


def _early(manifest: Manifest) -> tuple[list[str], list[list[str]]]:
    rows = [[f"`{entry.path}`", f"{entry.owner:02d}", entry.reason] for entry in manifest.early]
    return ["File", "Chapter", "Reason"], rows


def _inert(manifest: Manifest) -> tuple[list[str], list[list[str]]]:
    rows = [[f"`{entry.symbol}`", f"{entry.chapter:02d}"] for entry in manifest.inert]
    return ["Symbol", "Chapter"], rows


TABLES = {"early": _early, "inert": _inert}
