"""`tree NN`: the files of the chapter's tree, with what the chapter does to each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steplib.blocks.base import Request, fenced

if TYPE_CHECKING:
    from steplib.book import TreeFile

Folder = dict[str, "Folder | TreeFile"]

MARKS = {"created": "+ created", "modified": "~ modified", "early": "^ early", "untouched": ""}


def render(request: Request) -> str:
    """A drawing of the tree; an early file names its owner."""
    chapter = request.chapter()
    tree = request.book.tree(chapter.number)
    rows = [(line, _mark(file) if file else "") for line, file in _rows(_nested(tree.files), "")]
    width = max((len(line) for line, _ in rows), default=0) + 2
    return fenced("\n".join(f"{line:<{width}}{mark}".rstrip() for line, mark in rows), "text")


def _mark(file: TreeFile) -> str:
    mark = MARKS[file.mark]
    return f"{mark} ({file.owner:02d})" if file.mark == "early" else mark


def _nested(files: dict[str, TreeFile]) -> Folder:
    root: Folder = {}
    for path in sorted(files):
        *folders, name = path.split("/")
        at = root
        for folder in folders:
            inner = at.setdefault(folder + "/", {})
            assert isinstance(inner, dict), f"{path}: a file and a folder have the same name"
            at = inner
        at[name] = files[path]
    return root


def _rows(folder: Folder, stem: str) -> Iterator[tuple[str, TreeFile | None]]:
    """Folders after files, as a reader expects to see a package."""
    entries = sorted(folder.items(), key=lambda entry: isinstance(entry[1], dict))
    for name, inner in entries:
        is_last = name == entries[-1][0]
        line = stem + ("└── " if is_last else "├── ") + name
        if isinstance(inner, dict):
            yield line, None
            yield from _rows(inner, stem + ("    " if is_last else "│   "))
        else:
            yield line, inner
