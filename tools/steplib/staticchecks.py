"""The checks that only read: manifest, references, types, and the page's generated text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import cache
from steplib.context import Context, test_files
from steplib.errors import Problem
from steplib.facts import Finding, Result, failed
from steplib.stage import fakes, shared_files

if TYPE_CHECKING:
    from steplib.book import Chapter


def _of_problems(check: str, problems: list[Problem], summary: str) -> Result:
    if problems:
        return failed(check, *map(Finding.of, problems))
    return Result(check, summary=summary)


def manifest(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """Problems of the whole book that name no other chapter count for the last one."""
    names = [c.name for c in context.book.chapters]
    mine = [
        problem
        for problem in context.book_problems
        if next((n for n in names if n in problem.where), names[-1]) == chapter.name
    ]
    files = len(context.book.tree(chapter.number).files)
    return _of_problems("manifest", mine, f"{files} files")


def references(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    from steplib.static import forward_references

    def make() -> Result:
        found = forward_references(context.book, chapter.number)
        return _of_problems("references", found, "none points forward")

    return context.cached(make, lambda: ["references", *_static_parts(context, chapter)])


def types(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    from steplib.typecheck import type_problems

    def make() -> Result:
        return _of_problems("types", type_problems(context.book, chapter.number), "mypy agrees")

    def parts() -> list[Any]:
        return ["types", cache.installed("mypy"), *_static_parts(context, chapter)]

    return context.cached(make, parts)


def _static_parts(context: Context, chapter: Chapter) -> list[Any]:
    folder, root = chapter.folder, context.book.root
    sources = [*folder.rglob("*.py"), *test_files(context.book, chapter), *shared_files(root)]
    sources += fakes(root, sources)
    later = [c.manifest.later for c in context.book.chapters if c.number <= chapter.number]
    here = Path(__file__).parent
    tool = [here / f"{name}.py" for name in ("static", "typecheck", "modules", "references")]
    hashes = [cache.file_sha256(path) for path in [*sorted(sources), *tool]]
    return [context.book.tree(chapter.number).sha256, hashes, later]


def text(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """The generated blocks of the chapter's page."""
    from steplib.docs import stale_blocks

    return _of_problems("text", stale_blocks(context.book, chapter.number), "fresh")
