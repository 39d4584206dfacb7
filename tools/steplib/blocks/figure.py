"""`figure NAME`: a drawing of docs/figures with the alternative text that it carries."""

from __future__ import annotations

import re
from html import unescape

from steplib.blocks.base import BlockError, Request

_DESC = re.compile(r"<desc[^>]*>(.*?)</desc>", re.S)


def render(request: Request) -> str:
    """A Markdown image; its alternative text is the drawing's description."""
    if len(request.args) != 1:
        raise BlockError("Name one figure: figure NAME.")
    (name,) = request.args
    file = request.book.root / "docs" / "figures" / f"{name}.svg"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in file.parent.glob("*.svg"))) or "none yet"
        raise BlockError(f"There is no figure {name}; docs/figures has {known}.")
    found = _DESC.search(file.read_text(encoding="utf-8"))
    if not found:
        raise BlockError(f"The figure {name} has no <desc>; give it one in tools/figures.")
    text = " ".join(unescape(found[1]).split()).replace("[", "(").replace("]", ")")
    return f"![{text}]({request.link(file)})"
