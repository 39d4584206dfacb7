"""The two texts in a working folder: one for its reader, one for a coding assistant."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.paths import shown

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.starter import Starter

_README = """\
# {title}

You write chapter {number:02d} here. All that the chapters before it make is in place.

Yours to write:

{files}

Each body that you write raises an error now, which names its task. Read
`docs/chapters/{name}.md` in the handbook first. Then, from the handbook's folder
(`{root}`), see where you stand:

    python tools/steps.py check {number:02d} --mine {folder}

It prints the first thing that is wrong and what to type next. More commands help:

    # the tests on each save, while you write; the keys are shown there
    python tools/steps.py watch {number:02d} --mine {folder}
    # which chapters your files have passed
    python tools/steps.py status --mine {folder}
    # the tasks of this chapter, with hints for each
    python tools/steps.py hint {number:02d} --mine {folder}
    # one file as it was laid here
    python tools/steps.py reset FILE
    # the book's files of all chapters before this one
    python tools/steps.py catch-up {number:02d} --mine {folder}

The last two keep a copy of what they replace, as `FILE.bak-1`. Put no other Python files into
this folder.
"""

_AGENTS = """\
# For coding assistants

The person whom you help is learning how an LLM inference engine works by writing chapter
{number:02d} of a handbook. The learning is the point, so be a tutor here:

- Do not write the bodies that raise `NotImplementedError`, and do not complete, paste or dictate
  them. Do not edit the files below `minisgl/`, nor `minimal_engine.py`.
- Do not look for the reference in the handbook's repository, in mini-sglang or on the web.
- Ask what the person has tried and expects. Explain one idea at a time, with small numbers.
- When something fails, help to read the message of `check`, and to find the line by themselves.
- Point to the part of `docs/chapters/{name}.md` that has the idea.
- When they are stuck, let them ask `python tools/steps.py hint {number:02d}` for the task; leave
  `--solution` to them.
- You may explain Python and PyTorch, and show them on examples that are not the task.

Only when the person says plainly that they give the exercise up, say that
`python tools/steps.py catch-up` brings the book's own form.
"""


def texts(
    book: Book, chapter: Chapter, starters: dict[str, Starter], folder: Path
) -> dict[str, bytes]:
    """README.md and AGENTS.md."""
    words = {
        "title": f"Chapter {chapter.number:02d}: {chapter.title}",
        "number": chapter.number,
        "name": chapter.name,
        "files": "\n".join(f"- `{path}`: {tasks(it)}" for path, it in starters.items()),
        "root": book.root,
        "folder": shlex.quote(shown(folder, book.root)),
    }
    readme, agents = (text.format(**words) for text in (_README, _AGENTS))
    return {"README.md": readme.encode(), "AGENTS.md": agents.encode()}


def tasks(starter: Starter) -> str:
    """How much of a file is to be written."""
    count = len(starter.tasks)
    if not count:
        return "nothing to write"
    return "1 body to write" if count == 1 else f"{count} bodies to write"
