"""`exercises`: those of a chapter with the first command, or a table of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steplib.blocks.base import BlockError, Request, fenced, table
from steplib.exercises import every
from steplib.exercises.exercise import of_chapter

if TYPE_CHECKING:
    from steplib.exercises import Exercise

_KINDS = {
    "predict": "predict, then measure",
    "fault": "find the planted fault",
    "extend": "extend it",
    "explain": "explain a trace",
}


def render(request: Request) -> str:
    """On a chapter's page, or for a chapter that is named, its own; else all."""
    if not request.args and request.page_chapter is None:
        return _all(request)
    exercises = of_chapter(request.chapter())
    if not exercises:
        raise BlockError("This chapter has no exercise; write one, or take the block away.")
    return "\n\n".join(map(_one, exercises))


def _one(exercise: Exercise) -> str:
    recipe = exercise.recipe
    commands = [
        f"$ python tools/steps.py exercise start {exercise.id} --into ../exercises",
        f"$ python tools/steps.py exercise check {exercise.id} --mine ../exercises",
    ]
    head = f"**{exercise.id} {recipe.title}** ({_KINDS[recipe.kind]}; {recipe.minutes} minutes)."
    return f"{head} {recipe.about}\n\n" + fenced("\n".join(commands), "console")


def _all(request: Request) -> str:
    rows = [_row(request, exercise) for exercise in every(request.book)]
    return table(["Id", "Exercise", "What you do", "Minutes", "About"], rows)


def _row(request: Request, exercise: Exercise) -> list[str]:
    recipe = exercise.recipe
    page = request.book.root / "docs" / "chapters" / f"{exercise.chapter.name}.md"
    title = f"[{recipe.title}]({request.link(page)}#exercise)"
    return [exercise.id, title, _KINDS[recipe.kind], str(recipe.minutes), recipe.about]
