"""`output NN MODEL [mask=UNIT ...]`, `example NN NAME MODEL [mask=UNIT ...]`: what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steplib import models, normalize, outputs
from steplib.blocks.base import BlockError, Request, fenced

if TYPE_CHECKING:
    from steplib.book import Chapter


def render(request: Request) -> str:
    """A fence titled by the command. Blanks alone, around a masked number, are no difference."""
    units = [arg.removeprefix("mask=") for arg in request.args if arg.startswith("mask=")]
    names = [arg for arg in request.args if not arg.startswith("mask=")]
    if len(names) not in (2, 3):
        raise BlockError("Write output NN MODEL, or example NN NAME MODEL.")
    chapter, model = request.numbered(names[0]), names[-1]
    script = chapter.main if len(names) == 2 else chapter.folder / "examples" / f"{names[1]}.py"
    if not models.present(model) and request.current:
        request.notes.append(f"{model} is not here, so output on {request.where} was not compared")
        return request.current
    text = outputs.printed(request.book, chapter, script, model, units)
    fresh = fenced(text, "text", _command(chapter, script, model))
    return request.current if normalize.is_same(fresh, request.current) else fresh


def _command(chapter: Chapter, script: Path, model: str) -> str:
    if script == chapter.main:
        return f"python tools/steps.py main {chapter.number:02d} --model {model}"
    return f"steps/{chapter.name}/examples/{script.name} --model models/{model}"
