"""What can be wrong with a book before any of its code runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import plan
from steplib.errors import Problem
from steplib.paths import shown

if TYPE_CHECKING:
    from steplib.book import Book, Touch


def problems(book: Book) -> list[Problem]:
    """All problems, in the order in which an author mends them best."""
    # where the manifests contradict each other, which forms there must be can't be told; and a
    # TREE can only be judged once every form is there
    return (
        [*_folders(book), *_numbers(book), *_owners(book)]
        or [*_missing_forms(book), *_orphans(book)]
        or [*_finished(book), *_stale_trees(book)]
    )


def _folders(book: Book) -> Iterator[Problem]:
    known = {chapter.folder for chapter in book.chapters}
    for path in sorted((book.root / "steps").iterdir()):
        if path.is_dir() and path not in known and not _is_litter(path):
            message = "This folder is no chapter's."
            mend = "Name it NN-slug, such as 05-attention-backend, or move it away."
            yield Problem("manifest", shown(path, book.root), message, mend)


def _numbers(book: Book) -> Iterator[Problem]:
    for expected, chapter in enumerate(book.chapters):
        where = f"steps/{chapter.name}"
        planned = plan.load().get(chapter.number)
        if planned is None or planned.slug != chapter.slug:
            says = f'it is named "{planned.name}"' if planned else "there is no such chapter"
            yield Problem(
                "manifest", where, f"In the plan {says}.", "Rename the folder and its slug."
            )
        if chapter.number != expected:
            message = f"Chapter {expected:02d} is missing before this one."
            yield Problem("manifest", where, message, "Chapters are numbered without a gap.")
            return


def _owners(book: Book) -> Iterator[Problem]:
    for path, touches in book.touches.items():
        creators = [touch.chapter for touch in touches if touch.mark == "created"]
        if len(creators) > 1:
            both = " and ".join(f"{number:02d}" for number in creators)
            yield Problem(
                "manifest",
                path,
                f"Chapters {both} both create this file.",
                "Keep it in `creates` of the first and list it in `modifies` of the others.",
            )
            continue
        yield from _order(path, touches, creators)
        yield from _early_owners(book, path, touches, creators)


def _order(path: str, touches: list[Touch], creators: list[int]) -> Iterator[Problem]:
    for touch in touches:
        name = f"{touch.chapter:02d}"
        if touch.mark == "modified" and not (creators and creators[0] < touch.chapter):
            yield Problem(
                "manifest",
                path,
                f"Chapter {name} modifies this file, and no chapter before it creates it.",
                "List it in `creates` of a chapter, or as [[early]] until its owner comes.",
            )
        if touch.early and creators and creators[0] <= touch.chapter:
            yield Problem(
                "manifest",
                path,
                f"Chapter {name} brings this file early, and it is there since {creators[0]:02d}.",
                "List it in `modifies` instead.",
            )


def _early_owners(
    book: Book, path: str, touches: list[Touch], creators: list[int]
) -> Iterator[Problem]:
    for touch in touches:
        if touch.early is None or (creators and creators[0] <= touch.chapter):
            continue
        owner, name = touch.early.owner, f"{touch.chapter:02d}"
        message = f"Chapter {name} brings this file early for chapter {owner:02d}, "
        if creators and creators[0] != owner:
            message += f"and chapter {creators[0]:02d} creates it."
        elif not creators and owner <= book.last.number:
            message += "which does not create it."
        elif plan.load().get(owner) is None:
            message += "which is not in the plan."
        else:
            continue
        yield Problem("manifest", path, message, "Make `owner` the chapter that creates it.")


def _missing_forms(book: Book) -> Iterator[Problem]:
    for path in book.touches:
        for form in book.forms(path):
            if not form.source.is_file():
                where = shown(form.source, book.root)
                message = f"Chapter {form.chapter:02d} lists {path}, and its form is not here."
                mend = "Write the file, or take it out of the manifest."
                yield Problem("manifest", where, message, mend)


def _orphans(book: Book) -> Iterator[Problem]:
    for path in _files_below(book.root / "minisgl"):
        where = shown(path, book.root)
        if where not in book.touches:
            message = "No chapter's manifest lists this file."
            mend = "List it in `creates` of the chapter that teaches it, or delete it."
            yield Problem("manifest", where, message, mend)
    sources = {form.source for path in book.touches for form in book.forms(path)}
    for chapter in book.chapters:
        for path in _files_below(chapter.folder / "files"):
            if path not in sources:
                yield _orphan_form(book, path, path.relative_to(chapter.folder / "files"))


def _orphan_form(book: Book, form: Path, path: Path) -> Problem:
    where, name = shown(form, book.root), path.as_posix()
    if name not in book.touches:
        message = f"No manifest lists {name}."
        return Problem("manifest", where, message, "Delete it, or list the file in a manifest.")
    last = book.forms(name)[-1]
    message = f"The last form of {name} is chapter {last.chapter:02d}'s, in the finished package"
    differs = last.source.is_file() and last.source.read_bytes() != form.read_bytes()
    message += ", and this one differs from it." if differs else "; this is a copy of it."
    mend = f"Delete it, or list {name} in `modifies` of a later chapter."
    return Problem("manifest", where, message, mend)


def _finished(book: Book) -> Iterator[Problem]:
    tree = book.tree(book.last.number)
    finished = {shown(path, book.root): path for path in _files_below(book.root / "minisgl")}
    for path, file in tree.files.items():
        if not path.startswith("minisgl/"):
            continue
        if path not in finished or finished[path].read_bytes() != file.data:
            message = f"The tree of chapter {book.last.number:02d} differs from the finished file."
            mend = f"Make it equal to {shown(file.source, book.root)}."
            yield Problem("tree", path, message, mend)


def _stale_trees(book: Book) -> Iterator[Problem]:
    for chapter in book.chapters:
        listing = chapter.folder / "TREE"
        text = listing.read_text(encoding="utf-8") if listing.is_file() else None
        if text != book.tree(chapter.number).text():
            state = "is missing" if text is None else "does not list the tree as it is now"
            message = f"The TREE of chapter {chapter.number:02d} {state}."
            mend = "Run: python tools/steps.py tree all --write"
            yield Problem("tree", shown(listing, book.root), message, mend)


def _files_below(folder: Path) -> list[Path]:
    """Files a person put there: no caches, no hidden files."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.rglob("*") if path.is_file() and not _is_litter(path))


def _is_litter(path: Path) -> bool:
    return path.suffix == ".pyc" or path.name.startswith(".") or "__pycache__" in path.parts
