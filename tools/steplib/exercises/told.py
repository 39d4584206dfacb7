"""What the exercise commands print."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from steplib.exercises.exercise import HINTS

if TYPE_CHECKING:
    from steplib.exercises.exercise import Exercise
    from steplib.exercises.grading import Attempt

_STEPS = ("nudge", "idea", "outline")
_WIDTH = 96
_COMMAND = "python tools/steps.py exercise"


def listed(exercises: list[Exercise]) -> Iterator[str]:
    """One line an exercise."""
    width = max((len(it.id) for it in exercises), default=0)
    title = max((len(it.recipe.title) for it in exercises), default=0)
    for it in exercises:
        facts = f"{it.recipe.kind:<8} {it.recipe.minutes:3} min  {it.recipe.upstream}"
        yield f"{it.id:<{width}}  {it.recipe.title:<{title}}  {facts}".rstrip()


def hint(exercise: Exercise, step: int) -> Iterator[str]:
    """One of the three hints, and how to see the next."""
    yield f"hint {step} of {HINTS} for exercise {exercise.id}, the {_STEPS[step - 1]}:"
    yield from textwrap.wrap(
        exercise.recipe.hints[step - 1], _WIDTH, initial_indent="  ", subsequent_indent="  "
    )
    if step < HINTS:
        yield f"next  {_COMMAND} check {exercise.id} --hint {step + 1}"


def checked(exercise: Exercise, found: Attempt, mine: str) -> Iterator[str]:
    """The verdict, and for a failure its first reason. mine: where the answer lies, as given."""
    name = f"exercise {exercise.id}: {exercise.recipe.title}"
    if found.is_passed:
        yield f"PASSED  {name}; {found.count} of {found.count} checks"
        yield f"next  {_COMMAND} diff {exercise.id} --mine {mine}"
        return
    yield f"FAILED  {name}"
    yield from _reason(found)
    yield f"  {found.passed} of {found.count} checks pass"
    yield f"  read      docs/chapters/{exercise.chapter.name}.md"
    yield f"  hint      {_COMMAND} check {exercise.id} --hint 1"
    yield f"  next      {_COMMAND} check {exercise.id} --mine {mine}"


def _reason(found: Attempt) -> Iterator[str]:
    if found.run.violations or found.first is None:
        yield f"  {found.message}"
        return
    place, result = found.first
    verdict = "" if result.verdict == "failed" else f"{result.verdict}: "
    yield f"  check {place} of {found.count}, {result.name.replace('_', ' ')}"
    yield f"  {verdict}{result.detail}"
    if result.expected is not None:
        yield f"  expected  {result.expected}"
    if result.got is not None:
        yield f"  got       {result.got}"
