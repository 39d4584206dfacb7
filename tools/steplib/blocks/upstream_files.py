"""`upstream-files`: every file of the official repository, with its chapter or why it has none."""

from __future__ import annotations

from steplib import catalogue, plan
from steplib.blocks.base import Request, table
from steplib.catalogue import UpstreamFile


def render(request: Request) -> str:
    """A table in the order of the data file; a chapter that has a page is a link."""
    facts = catalogue.load()
    rows = [
        [f"[`{file.path}`]({facts.permalink(ours(file.path))})", _fate(request, file)]
        for file in catalogue.upstream_files()
    ]
    return table(["File", "Chapter, or why there is none"], rows)


def ours(path: str) -> str:
    """The path by which the catalogue knows an upstream file."""
    return path.removeprefix("python/")


def _fate(request: Request, file: UpstreamFile) -> str:
    if file.chapter is None:
        return file.left_out
    planned = plan.load().get(file.chapter)
    if planned is None:
        return f"{file.chapter:02d}"
    page = request.book.root / "docs" / "chapters" / f"{planned.name}.md"
    label = f"{planned.number:02d} {planned.title}"
    return f"[{label}]({request.link(page)})" if page.is_file() else label
