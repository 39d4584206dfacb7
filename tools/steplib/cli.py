"""The command line: reads it, runs one command, and says in a sentence what went wrong."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from steplib.commandtable import COMMANDS
from steplib.errors import UserError, did_you_mean
from steplib.paths import ROOT

WRONG_USE, INTERRUPTED = 2, 130
_SCRIPT = "tools/steps.py"
_CHOICE = re.compile(r"invalid choice: '(?P<word>.*?)' \(choose from (?P<known>.*)\)")
_PLACES = ("mine", "into", "out", "submissions", "html", "json", "junit", "upstream")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_PLACE = {errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}


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
    except ModuleNotFoundError as error:
        return _say(f"error: {_without(error)}", WRONG_USE)


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


def _without(error: ModuleNotFoundError) -> str:
    """One sentence for a package that is missing; a module of the tool's own is a fault of it."""
    package = (error.name or "steplib").partition(".")[0]
    if package == "steplib":
        raise error
    return (
        f"this Python has no package {package}; take the one that `make setup` makes "
        f"(.venv/bin/python {_SCRIPT} ...), or see what is missing: python {_SCRIPT} doctor"
    )


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
