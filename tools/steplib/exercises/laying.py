"""What a reader gets for an exercise: the file to edit, and the task with the next command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import workfolder
from steplib.errors import UserError

if TYPE_CHECKING:
    from steplib.book import Book
    from steplib.exercises.exercise import Exercise
    from steplib.workfolder import Laid

ANSWER, README = "answer.py", "README.md"

_README = """\
{statement}
## Commands

Edit `answer.py` here. Then, from the handbook's folder (`{root}`):

    # is it right? it shows the first thing that is not
    python tools/steps.py exercise check {id} --mine {folder}
    # a nudge; then 2, the idea, and 3, an outline
    python tools/steps.py exercise check {id} --hint 1
    # beside upstream's code, once it is right
    python tools/steps.py exercise diff {id} --mine {folder}
"""


def lay(book: Book, exercise: Exercise, into: Path) -> Laid:
    """Write DIR/ID/answer.py and README.md; what the reader changed stays."""
    place = (into / exercise.id).resolve()
    folder = workfolder.to_start_in(place, book.root, exercise.chapter.number)
    words = {"root": book.root, "id": exercise.id, "folder": shlex.quote(str(place))}
    readme = _README.format(statement=exercise.statement.rstrip() + "\n", **words)
    return folder.lay({ANSWER: exercise.starter.read_bytes(), README: readme.encode()})


def answer_in(exercise: Exercise, mine: str | None) -> Path:
    """The reader's file. mine: that file, its folder, or the folder that start got; else here."""
    place = Path(mine or ".")
    if place.is_file():
        return place
    for file in (place / exercise.id / ANSWER, place / ANSWER):
        if file.is_file():
            return file
    raise UserError(
        f"{place} holds no {ANSWER} of exercise {exercise.id}; lay one with: "
        f"python tools/steps.py exercise start {exercise.id} --into DIR"
    )
