"""The command line: a table of commands, each in its own lazily imported module."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from steplib.errors import UserError, did_you_mean
from steplib.paths import ROOT

WRONG_USE, INTERRUPTED = 2, 130
_CHOICE = re.compile(r"invalid choice: '(?P<word>.*?)' \(choose from (?P<known>.*)\)")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_PLACE = {errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}


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

_PLACES = ("mine", "into", "out", "submissions", "html", "json", "junit", "upstream")
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
            _option("--solution", action="store_true", help="all steps and the book's bodies"),
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


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are UserErrors, with the nearest word for a wrong one."""

    def error(self, message: str) -> NoReturn:
        choice = _CHOICE.search(message)
        if choice:
            words = [word.strip(" '") for word in choice["known"].split(",")]
            near = did_you_mean(choice["word"], words) or f" Known: {', '.join(words)}."
            raise UserError(f'{self.prog} does not know "{choice["word"]}".{near}')
        raise UserError(f"{message}; see {self.prog} --help")


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit status is 0 (pass), 1 (a check failed) or 2 (wrong use)."""
    try:
        return _finish(_run(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        return _say(f"error: {error}", WRONG_USE)
    except KeyboardInterrupt:
        return _say("stopped; nothing was left half-written", INTERRUPTED)
    except BrokenPipeError:
        # whatever is still buffered can't be written either, so let the exit flush go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _say("error: the output was closed before all of it was written", WRONG_USE)
    except OSError as error:
        return _say(f"error: {_explained(error)}", WRONG_USE)


def _run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    _demand_places(args)
    if args.command is None:
        _parser().print_help()
        return WRONG_USE
    module = next(command.module for command in COMMANDS if command.name == args.command)
    run: Callable[[Path, argparse.Namespace], int] = importlib.import_module(module).run
    return run(Path(args.root), args)


def _demand_places(args: argparse.Namespace) -> None:
    """No place may be empty: `--mine "$DIR"` with an unset DIR must not mean the reference."""
    for name in _PLACES:
        if getattr(args, name, None) == "":
            raise UserError(f"--{name} is empty; name a place (is a variable of your shell unset?)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="steps.py",
        description="Assembles the book's chapters one by one and proves each of them.",
        epilog="Exit status: 0 pass, 1 a check failed, 2 wrong use or a broken set-up.",
    )
    parser.add_argument("--root", default=ROOT, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help)
        for option in command.options:
            sub.add_argument(*option.names, **option.settings)
    return parser


def _finish(status: int) -> int:
    sys.stdout.flush()
    return status


def _say(sentence: str, status: int) -> int:
    print(sentence, file=sys.stderr)
    return status


def _explained(error: OSError) -> str:
    """One sentence for what the machine refused; any other OSError is a fault of the tool."""
    name = error.filename2 or error.filename
    place = f" for {name}" if name else ""
    if error.errno in _NO_SPACE:
        return f"the disk is full{place}; free some space and run the command again"
    if error.errno in _NO_ACCESS:
        return f"permission denied{place}; make it writable, or work in another folder"
    if error.errno in _NO_PLACE:
        wrong = os.strerror(error.errno).lower()
        return f"this can't be written or read{place} ({wrong}); name another place"
    raise error
