"""What is proved of each chapter: a table of checks in book order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steplib import runningchecks as running
from steplib import staticchecks as static
from steplib.context import Context
from steplib.errors import UserError
from steplib.facts import Finding, Result, failed

if TYPE_CHECKING:
    from steplib.book import Chapter


@dataclass(frozen=True)
class Check:
    """One row of the table. prove(context, chapter, results so far by check) -> Result.

    needs: checks that come before.
    """

    name: str
    says: str
    prove: Callable[[Context, Chapter, dict[str, Result]], Result]
    command: str
    needs: tuple[str, ...] = ()


CHECKS = (
    Check("manifest", "manifest and TREE", static.manifest, "check {}"),
    Check("references", "no forward reference", static.references, "check {}"),
    Check("types", "types", static.types, "check {}"),
    Check("main", "main", running.main, "main {}"),
    Check("parity", "parity with transformers", running.parity, "parity {}"),
    Check("tests", "tests", running.tests, "check {}"),
    Check("untouched", "lines that ran", running.touched, "check {}", ("main", "tests")),
    Check("text", "the page's generated blocks", static.text, "docs"),
)


def prove(context: Context, check: Check, chapter: Chapter, so_far: dict[str, Result]) -> Result:
    """Run one check; what a broken file raises is this chapter's failure, not the run's."""
    try:
        result = check.prove(context, chapter, so_far)
    except UserError as error:
        result = failed(check.name, Finding(str(error)))
    except (SyntaxError, ValueError) as error:  # a file of the chapter that can't be parsed
        result = failed(check.name, Finding(f"a file can't be read as Python: {error}; mend it"))
    number = f"{chapter.number:02d}"
    command = f"python tools/steps.py {check.command.format(number)}"
    result.next_command = result.next_command or command
    return result
