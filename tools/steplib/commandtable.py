"""Every command of the tool, with its help and its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """One argument of a command, as argparse takes it."""

    names: tuple[str, ...]
    settings: dict[str, Any]


@dataclass(frozen=True)
class Command:
    """A command lives in steplib.commands.<module> as `run(book_root, args) -> int`."""

    name: str
    help: str
    options: tuple[Option, ...] = ()

    @property
    def module(self) -> str:
        return f"steplib.commands.{self.name.replace('-', '_')}"


def _option(*names: str, **settings: Any) -> Option:
    return Option(names, settings)


_CHAPTER = _option("chapter", metavar="NN", help="a chapter's number")
_MODEL = _option("--model", metavar="M", help="a checkpoint's name or folder")
_FILE = _option("file", metavar="FILE", help="a file of a tree, such as minisgl/core.py")

_MINE = _option("--mine", metavar="DIR", help="your working folder")

COMMANDS = (
    Command("list", "the chapters, and what each adds"),
    Command(
        "tree",
        "a chapter's files, marked created, modified, early or untouched",
        (
            _option("chapter", metavar="NN", help='a chapter\'s number, or "all"'),
            _option("--write", action="store_true", help="write the TREE file anew"),
        ),
    ),
    Command(
        "assemble",
        "lay a chapter's tree out in a folder",
        (_CHAPTER, _option("--into", metavar="DIR", required=True, help="a new or empty folder")),
    ),
    Command("main", "run a chapter's main on its own tree", (_CHAPTER, _MODEL)),
    Command("parity", "compare a chapter's tokens with transformers'", (_CHAPTER, _MODEL)),
    Command(
        "check",
        "prove chapters: manifest, references, main, parity, tests, text",
        (
            _option("chapters", metavar="NN", nargs="*", help="chapters; none or all: every one"),
            _option("-j", "--jobs", metavar="N", type=int, help="chapters side by side"),
            _option("--fresh", action="store_true", help="do not use cached results"),
            _option("--json", metavar="F", help="write the facts as JSON"),
            _option("--junit", metavar="F", help="write the facts as JUnit XML"),
            _option("--require-real", action="store_true", help="fail without a real model"),
            _option("--mine", metavar="DIR", help="check the files in your working folder"),
            _option("--all", action="store_true", help="with --mine: earlier chapters' tests too"),
        ),
    ),
    Command(
        "start",
        "lay out a working folder in which you write a chapter yourself",
        (_CHAPTER, _option("--into", metavar="DIR", required=True, help="your working folder")),
    ),
    Command(
        "status",
        "which chapters the files of your working folder have passed",
        (_MINE,),
    ),
    Command(
        "watch",
        "check the files in your working folder each time you save one",
        (
            _option("chapter", metavar="NN", nargs="?", help="a chapter; none: the folder's own"),
            _MINE,
            _option("--poll", action="store_true", help="look for changes, as on network drives"),
        ),
    ),
    Command(
        "reset",
        "put a file of your working folder back as it was laid, and keep a copy",
        (_option("file", metavar="FILE", help="a file of the working folder"), _MINE),
    ),
    Command(
        "catch-up",
        "bring the book's files of earlier chapters into your working folder, and keep copies",
        (_CHAPTER, _MINE),
    ),
    Command(
        "hint",
        "a nudge, an idea, an outline for one task of a chapter; without a task, the list",
        (
            _CHAPTER,
            _option("task", metavar="TASK", nargs="*", help="a task, a file, or a stub's error"),
            _MINE,
            _option("--step", type=int, choices=(1, 2, 3), help="this step, not the next one"),
            _option("--again", action="store_true", help="the steps you saw, and no new one"),
            _option("--solution", action="store_true", help="the book's own bodies"),
        ),
    ),
    Command(
        "exercise",
        "the exercises: list them, lay one out, check an answer, see upstream's",
        (
            _option("action", choices=("list", "start", "check", "diff"), help="what to do"),
            _option("exercise", metavar="K", nargs="?", help="an exercise's id, such as 07"),
            _option("--into", metavar="DIR", help="start: your folder for exercises"),
            _option("--mine", metavar="DIR", help="check, diff: where your answer.py lies"),
            _option("--hint", type=int, choices=(1, 2, 3), help="check: show this hint instead"),
            _option("--upstream", metavar="PATH", help="diff: a checkout of mini-sglang"),
        ),
    ),
    Command(
        "diff",
        "your files beside the reference or upstream, symbol by symbol",
        (
            _CHAPTER,
            _MINE,
            _option(
                "--against",
                choices=("reference", "upstream"),
                default="reference",
                help="what to compare with; default: the reference",
            ),
            _option("--all", action="store_true", help="all files, not only the chapter's"),
            _option("--upstream", metavar="PATH", help="a checkout of mini-sglang"),
            _option("--html", metavar="FILE", help="write it as a page too"),
        ),
    ),
    Command(
        "upstream",
        "read another commit of mini-sglang and say what moved since the pinned one",
        (
            _option("action", choices=("refresh",), help="what to do"),
            _option("path", metavar="PATH", help="a checkout of mini-sglang"),
            _option("--write", action="store_true", help="pin that commit: write the catalogue"),
        ),
    ),
    Command(
        "models",
        "list, make or fetch the checkpoints",
        (
            _option("action", choices=("list", "make", "fetch"), help="what to do"),
            _option("name", metavar="NAME", nargs="?", help="one checkpoint; default: all"),
        ),
    ),
    Command(
        "doctor",
        "look over this machine and say what to mend",
        (_option("--json", action="store_true", help="print the facts as JSON"),),
    ),
    Command(
        "docs",
        "write the generated blocks of the pages",
        (
            _option("pages", metavar="PAGE", nargs="*", help="a page or a chapter; none: all"),
            _option("--check", action="store_true", help="only fail when a block is stale"),
        ),
    ),
    Command(
        "freeze",
        "keep a file's newest form for a chapter, so that a later one may change it",
        (_FILE, _CHAPTER),
    ),
    Command(
        "propagate",
        "carry a fix in a chapter's form through the later forms",
        (_FILE, _CHAPTER),
    ),
    Command(
        "site",
        "build, serve or publish the handbook",
        (
            _option("action", choices=("build", "serve", "publish"), help="what to do"),
            _option("--to", metavar="TARGET", help="publish: a folder or a branch"),
            _option("--port", metavar="N", type=int, default=8000, help="serve: on this port"),
        ),
    ),
    Command(
        "mutate",
        "try small wrong changes of a chapter's files, and list those that its check misses",
        (
            _option("chapter", metavar="NN", help='a chapter\'s number, or "all"'),
            _option("--sample", metavar="N", type=int, default=100, help="mutants a chapter (100)"),
            _option("--seed", metavar="S", type=int, default=0, help="which mutants are drawn"),
            _option("--all", action="store_true", help="every mutant instead of a sample"),
            _option("-j", "--jobs", metavar="N", type=int, default=1, help="mutants side by side"),
            _option("--json", metavar="F", help="write what was found as JSON"),
        ),
    ),
    Command(
        "grade",
        "grade what a class handed in: a sandbox for each submission, reports in several formats",
        (
            _option("--submissions", metavar="DIR", required=True, help="a folder or zip each"),
            _option("--chapters", metavar="NN-MM", help="what was to be written"),
            _option("--exercises", metavar="K", nargs="+", help="exercises that were to be solved"),
            _option("--out", metavar="DIR", required=True, help="where the reports go"),
            _option("-j", "--jobs", metavar="N", type=int, help="submissions side by side"),
            _option("--seed", metavar="S", type=int, default=0, help="the base of all seeds"),
            _option("--fresh", action="store_true", help="do not use cached results"),
        ),
    ),
    Command(
        "regrade",
        "whose score differs between two gradings, and why",
        (
            _option("old", metavar="OLD", help="the --out folder of a grading, or its grades.json"),
            _option("new", metavar="NEW", help="another one of the same class"),
        ),
    ),
    Command(
        "similar",
        "pairs of submissions that are more alike than chance, as a place to look",
        (
            _option("--submissions", metavar="DIR", required=True, help="a folder or zip each"),
            _option("--chapters", metavar="NN-MM", help="what was handed out; default: all"),
            _option("--html", metavar="F", help="write the regions side by side as a page"),
        ),
    ),
    Command("bugs", "which rows of the public bug list have a test"),
)
