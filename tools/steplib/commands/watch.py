"""`watch NN --mine DIR`: a quick check each time that a file is saved."""

from __future__ import annotations

import argparse
import shlex
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import hints, mine
from steplib.book import Book
from steplib.errors import UserError
from steplib.hints import showing
from steplib.process import stop_all
from steplib.watching import failure
from steplib.watching.full import Full
from steplib.watching.keys import Keys
from steplib.watching.loop import Loop
from steplib.watching.quick import Quick
from steplib.watching.saves import Polled, observe
from steplib.watching.screen import Screen
from steplib.workfolder import WorkFolder

if TYPE_CHECKING:
    from steplib.mine import MyBook
    from steplib.watching.failure import Failure


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Until q or Ctrl-C. The status is 0: what failed was told, and may be mended by now."""
    book = Book.load(book_root)
    place = Path(args.mine) if args.mine else WorkFolder.around(Path.cwd()).path
    own = mine.read(book, place, args.chapter)
    chapter = own.chapter(args.chapter or own.number)
    shown = shlex.quote(args.mine or str(place))
    words = ["--root", str(book.root), "check", f"{chapter.number:02d}", "--mine", str(place)]
    with Screen() as screen, Keys() as keys, Quick(book, own.folder, args.chapter, shown) as quick:
        loop = Loop(quick, keys, screen, partial(_hint, own, chapter.number), partial(Full, words))
        source = observe(own.folder, loop.saved, args.poll)
        how = "looking every 0.3 s" if isinstance(source, Polled) else "told of each save"
        screen.say(f"watching {shown} for chapter {chapter.name} ({how}); Ctrl-C ends it")
        try:
            loop.forever()
        finally:
            source.stop()
            stop_all()
    return 0


def _hint(own: MyBook, number: int, failed: Failure) -> str:
    """One step more for the task that the failure is about; where it tells none, the list."""
    chapter = own.chapter(number)
    now = mine.read(own, own.folder, str(number))
    for word in failure.subjects(now, chapter, failed):
        with suppress(UserError):
            return hints.next_hint(own, number, own.folder, word)
    told = showing.table(chapter, hints.load(chapter), own.folder)
    ask = f"python tools/steps.py hint {number:02d} TASK --mine {shlex.quote(str(own.folder))}"
    return "\n".join(["this failure tells no task; choose one", *told, f"next  {ask}"])
