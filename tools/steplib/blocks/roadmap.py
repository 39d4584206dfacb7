"""`roadmap`: every chapter of the plan with what it adds and whether it is written."""

from __future__ import annotations

from steplib import plan
from steplib.blocks.base import Request, table


def render(request: Request) -> str:
    """A heading and a table for each stage."""
    planned = plan.load()
    parts = []
    for stage in planned.stage:
        rows = [
            [f"{chapter.number:02d}", _title(request, chapter.name, chapter.title), chapter.adds]
            for chapter in planned.chapter
            if chapter.stage == stage.name
        ]
        parts.append(f"### {stage.name}\n\n" + table(["No.", "Chapter", "What it adds"], rows))
    return "\n\n".join(parts)


def _title(request: Request, name: str, title: str) -> str:
    page = request.book.root / "docs" / "chapters" / f"{name}.md"
    return f"[{title}]({request.link(page)})" if page.is_file() else f"{title} (planned)"
