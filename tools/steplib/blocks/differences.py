"""`differences [NN]`: a box for each listed difference from mini-sglang that the chapter brings."""

from __future__ import annotations

import re
from textwrap import indent
from typing import TYPE_CHECKING

from steplib import catalogue
from steplib import differences as listing
from steplib.blocks.base import Request

if TYPE_CHECKING:
    from steplib.book import Book
    from steplib.differences import Difference

CHAPTER_PAGE = re.compile(r"docs/chapters/(\d\d)-")
LABELS = {
    "cpu": "CPU support",
    "fault": "fault mended",
    "simplification": "simplification",
    "design": "other design",
}


def render(request: Request) -> str:
    """The chapter's differences, or all of them on a page that belongs to no chapter."""
    entries = list(listing.load().difference)
    if request.args or request.page_chapter is not None:
        number = request.chapter().number
        entries = [entry for entry in entries if _chapter(request.book, entry) == number]
    return "\n\n".join(_box(request, entry) for entry in entries) or "—"


def _chapter(book: Book, entry: Difference) -> int | None:
    """The chapter whose page shows it; else the one that owns, or teaches, the symbol's file."""
    if page := CHAPTER_PAGE.match(entry.shown_by):
        return int(page[1])
    path = entry.symbol.partition("::")[0]
    if path in book.touches:
        return book.owner(path)
    files = {file.path.removeprefix("python/"): file.chapter for file in catalogue.upstream_files()}
    return files.get(path)


def _box(request: Request, entry: Difference) -> str:
    title = f'!!! difference "`{entry.symbol}` · {LABELS[entry.kind]}"'
    parts = [entry.text, _shown_by(request, entry.shown_by)]
    return f"{title}\n\n" + indent("\n\n".join(filter(None, parts)), "    ")


def _shown_by(request: Request, place: str) -> str:
    """A link to a page, the name of a test, or nothing when this is the page."""
    path, _, anchor = place.partition("#")
    file = request.book.root / path
    if not path.endswith(".md"):
        return f"`{place}`"
    if file == request.page:
        return f"[#{anchor}](#{anchor})" if anchor else ""
    return f"[{path.removeprefix('docs/')}]({request.link(file)}{'#' + anchor if anchor else ''})"
