"""The commands that pages and README show are commands that the tool takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from steplib import cli
from steplib.paths import ROOT

_COMMAND = re.compile(r"python tools/steps\.py((?: [^\n`|<#()]+)?)")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[list[str]]:
    """The words behind the program's name, of each command without a gap."""
    text = page.read_text(encoding="utf-8").replace("$RANDOM", "1")
    found = [words.rstrip(" .,;:\\") for words in _COMMAND.findall(text) if "..." not in words]
    titles = [words.rpartition('"')[0] if words.count('"') % 2 else words for words in found]
    return [words for title in titles if (words := shlex.split(title)) not in ([], ["--help"])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_command_is_one(page: Path) -> None:
    for words in commands(page):
        cli._parser().parse_args(words)


def test_the_readme_shows_how_to_write_and_to_teach() -> None:
    shown = {words[0] for words in commands(ROOT / "README.md")}
    assert {"start", "watch", "exercise", "grade", "check", "doctor"} <= shown
