"""A small book that runs without torch, with a reference to compare it with.

The "model" is a pure function from token ids to 16 logits. Chapter 00 holds it in
minimal_engine.py, chapter 01 builds a greedy loop in minisgl/core.py, and the recorded reference
computes the same function here. A test breaks one place with `edit` and looks at the report.
"""

from __future__ import annotations

import random
import re
import statistics
from pathlib import Path

from made_up_book import MadeUpBook

from steplib import cache, minechecks, report
from steplib.book import Book
from steplib.check import check_chapters
from steplib.checks import CHECKS
from steplib.context import Context, Limits
from steplib.facts import Report
from steplib.lineup import Lineup
from steplib.mine import MyBook
from steplib.process import Launcher, Runner
from steplib.progress import Plain
from steplib.prompts import PromptSet

MODEL = "tiny-made"
CORE, MAIN = "minisgl/core.py", "steps/01-core-data-structures/main.py"
TEST = "tests/test_ch01_core.py"
EXECUTED = ("manifest", "main", "parity", "tests", "untouched")
EXECUTED_MINE = ("files", "references", "main", "parity", "tests")

_FILES = {
    f"models/{MODEL}/config.json": '{"vocab_size": 16}',
    "steps/00-minimal-engine/step.toml": """\
number = 0
slug = "minimal-engine"
creates = ["minimal_engine.py"]
""",
    "steps/00-minimal-engine/main.py": '"""Chapter 00."""\n',
    "steps/00-minimal-engine/files/minimal_engine.py": '''\
import random


def logits(ids):
    """One row of 16 logits."""
    draw = random.Random(",".join(map(str, ids)))
    return [draw.gauss(0, 1) for _ in range(16)]
''',
    "steps/01-core-data-structures/step.toml": """\
number = 1
slug = "core-data-structures"
creates = ["minisgl/__init__.py", "minisgl/core.py"]

[parity]
models = ["tiny-made"]
counters = ["steps"]
""",
    "minisgl/__init__.py": "",
    CORE: '''\
from minimal_engine import logits


class Loop:
    """Greedy decoding of one prompt."""

    def __init__(self, prompt):
        self.ids = list(prompt)
        self.steps = 0

    def step(self):
        row = logits(self.ids)
        best, second = sorted(range(16), key=row.__getitem__)[:-3:-1]
        self.ids.append(best)
        self.steps += 1
        return (best, row[best]), (second, row[second])
''',
    MAIN: '''\
"""Chapter 01: a greedy loop."""

import book
from minisgl.core import Loop


def generate(model_path, prompts, max_tokens, **config):
    book.config(config)
    loops = [Loop(prompt) for prompt in prompts]
    top2 = [[loop.step() for _ in range(max_tokens)] for loop in loops]
    tokens = [[best[0] for best, _ in row] for row in top2]
    return book.Generation(tokens, top2, {"steps": sum(loop.steps for loop in loops)})


def main():
    args = book.arguments(max_tokens=4)
    generation = generate(args.model, [[1, 2, 3]], args.max_tokens)
    print(generation.token_ids)
    book.report(generation)


if __name__ == "__main__":
    main()
''',
    TEST: """\
from pairs import equal


def probe_a_step_appends_the_best_token(seed):
    from minisgl.core import Loop

    loop = Loop([seed % 16])
    (best, _), _ = loop.step()
    return {"ids": loop.ids, "best": best, "steps": loop.steps}


def judge_a_step_appends_the_best_token(seed, got):
    equal(got["ids"], [seed % 16, got["best"]], "ids")
    equal(got["steps"], 1, "steps")
""",
}


class RunnableBook(MadeUpBook):
    """Writes the sound book; `edit` changes one place of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path, text in _FILES.items():
            self.write(path, text)
        self.share()
        self.refresh()

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace `old`, which must be there once, and bring TREE up to date."""
        text = self.read(path)
        assert text.count(old) == 1, f"{path} holds {text.count(old)} times: {old}"
        self.write(path, text.replace(old, new))
        self.refresh()

    def check(
        self,
        *only: str,
        reference: Reference | None = None,
        limits: Limits | None = None,
        runner: Runner | None = None,
        mine: MyBook | None = None,
        kept: cache.Results | None = None,
    ) -> Report:
        """Check chapter 01, all that runs or only some of it, with no cached results but `kept`.

        mine: a reader's files in the book's place, and then their checks.
        """
        book = mine or Book.load(self.root)
        lineup = Lineup(self.root / "models")
        context = Context(
            book,
            lineup,
            reference or Reference(),
            runner or Launcher(lineup.folder),
            runner or Launcher(lineup.folder),
            kept or cache.Results(self.root, is_fresh=True),
            limits or Limits(main=20, probe=20, generate=20),
        )
        chapters = [book.chapter(1)]
        if mine is not None:
            checks_of, only = minechecks.checks_of(mine, "DIR"), only or EXECUTED_MINE
        else:
            checks_of, only = (lambda _: CHECKS), only or EXECUTED
        watcher = Plain(chapters)
        return check_chapters(context, chapters, 1, watcher, only=only, checks_of=checks_of)


class Reference:
    """What transformers would say, if it knew the made-up model.

    nudged: numbers of ids at which the second best token comes within a hair of the best.
    """

    noise = 1e-6
    std = 1.0

    def __init__(self, nudged: tuple[int, ...] = ()) -> None:
        self.nudged = nudged

    def prepare(self, wanted: list[tuple[Path, PromptSet]]) -> None:
        return

    def reference(self, folder: Path, prompts: PromptSet) -> Reference:
        self.rows: list[list[list[float]]] = []
        self.tokens: list[list[int]] = []
        for prompt in prompts.lists():
            ids, rows = list(prompt), []
            for _ in range(prompts.max_tokens):
                rows.append(self.row(ids))
                ids.append(max(range(16), key=rows[-1].__getitem__))
            self.rows.append(rows)
            self.tokens.append(ids[len(prompt) :])
        return self

    def row(self, ids: list[int]) -> list[float]:
        draw = random.Random(",".join(map(str, ids)))
        row = [draw.gauss(0, 1) for _ in range(16)]
        if len(ids) in self.nudged:
            best, second = sorted(range(16), key=row.__getitem__)[:-3:-1]
            row[second] = row[best] - 1e-6
        return row

    def logits(self, prompt: int, position: int) -> list[float]:
        return self.rows[prompt][position]


NUDGE = """\
        if len(self.ids) in {}:
            best, second = sorted(range(16), key=row.__getitem__)[:-3:-1]
            row[second] = row[best] + 1e-6
        best, second = """


def nudge(book: RunnableBook, *lengths: int) -> Reference:
    """Let the engine take the other token of a near tie at these numbers of ids."""
    book.edit(CORE, "        best, second = ", NUDGE.format(lengths))
    return Reference(lengths)


def text_of(found: Report) -> str:
    """The report as a reader sees it, the same for each run."""
    return without_what_differs("\n".join(report.lines(found)))


def without_what_differs(text: str) -> str:
    """A report without stages and seconds."""
    text = re.sub(r"[\w./]*/minisgl-\w+/", "STAGE/", text)
    return re.sub(r"in \d+\.\d s", "in N s", text)


def spread(reference: Reference) -> float:
    """The standard deviation of a row, to see that `std` is about right."""
    return statistics.pstdev(reference.row([1, 2, 3]))
