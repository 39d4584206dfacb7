"""`upstream-files`: every file of the official repository, with its chapter or why it has none."""

from __future__ import annotations

from pathlib import PurePosixPath

from steplib import catalogue, plan
from steplib.blocks.base import Request, table
from steplib.catalogue import UpstreamFile


def render(request: Request) -> str:
    """A heading and a table for each folder; a chapter that has a page is a link."""
    folders: dict[str, list[UpstreamFile]] = {}
    for file in catalogue.upstream_files():
        folders.setdefault(str(PurePosixPath(file.path).parent), []).append(file)
    return "\n\n".join(_folder(request, *item) for item in folders.items())


def _folder(request: Request, folder: str, files: list[UpstreamFile]) -> str:
    rows = [[_linked(file), _fate(request, file)] for file in files]
    return f"## {folder}\n\n" + table(["File", "Chapter, or why there is none"], rows)


def _linked(file: UpstreamFile) -> str:
    link = catalogue.load().permalink(ours(file.path))
    return f"[`{PurePosixPath(file.path).name}`]({link})"


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
