"""`chapters`: the learning path, a row a stage, with a link to each chapter that has a page."""

from __future__ import annotations

from steplib import plan
from steplib.blocks.base import Request, table
from steplib.plan import PlannedChapter, Stage


def render(request: Request) -> str:
    """Stage, chapters, what the reader holds, time."""
    planned = plan.load()
    rows = [_row(request, stage, planned.chapter) for stage in planned.stage]
    return table(["Stage", "Chapters", "What you hold at its end", "Time"], rows)


def _row(request: Request, stage: Stage, chapters: tuple[PlannedChapter, ...]) -> list[str]:
    own = [_linked(request, chapter) for chapter in chapters if chapter.stage == stage.name]
    return [f"**{stage.name}**", "<br>".join(own), stage.holds, stage.days]


def _linked(request: Request, chapter: PlannedChapter) -> str:
    page = request.book.root / "docs" / "chapters" / f"{chapter.name}.md"
    label = f"{chapter.number:02d} {chapter.title}"
    return f"[{label}]({request.link(page)})" if page.is_file() else label
