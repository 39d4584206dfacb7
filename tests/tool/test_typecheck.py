"""mypy on a tree: what names alone can't prove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MANIFESTS, MadeUpBook, shown

from steplib import mine
from steplib.typecheck import type_problems

Golden = Callable[[str, str], None]
KEPT = "steps/01-core-data-structures/files/minisgl/core.py"
BOX = "class Box:\n    def get(self) -> int:\n        return 1\n"
LATER = '[[later]]\nmodule = "%s"\nnames = ["%s"]\nchapter = 2\n'
TYPING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from %s import %s\n"

FORWARD = {
    "method": (BOX + "def f(box: Box) -> int:\n    return box.put()\n"),
    "keyword": (BOX + "def f(box: Box) -> int:\n    return box.get(fast=True)\n"),
    "module": "from minisgl.ops import double as double\n",
}


def test_a_sound_tree_has_no_problems(made_up: MadeUpBook) -> None:
    assert [type_problems(made_up.load(), n) for n in (0, 1, 2)] == [[], [], []]


@pytest.mark.parametrize("kind", FORWARD)
def test_what_the_tree_lacks_is_named(made_up: MadeUpBook, golden: Golden, kind: str) -> None:
    made_up.append(KEPT, FORWARD[kind])
    golden(f"types_{kind}", shown(type_problems(made_up.load(), 1)))


@pytest.mark.parametrize(("module", "name"), [("minisgl.ops", "double"), ("minisgl.core", "added")])
def test_a_listed_name_counts_as_known(made_up: MadeUpBook, module: str, name: str) -> None:
    made_up.append("minisgl/__init__.py", TYPING % (module, name))
    assert len(type_problems(made_up.load(), 1)) == 1
    made_up.manifest(1, MANIFESTS[1] + LATER % (module, name))
    assert type_problems(made_up.load(), 1) == []


def test_a_reader_is_told_whose_file_it_is(made_up: MadeUpBook, tmp_path: Path) -> None:
    book = made_up.load()
    for path, file in book.reference(2).files.items():
        place = tmp_path / "mine" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
    core = tmp_path / "mine" / "minisgl" / "core.py"
    core.write_text(
        core.read_text().replace(
            "def added() -> int:\n    return 4", "def added() -> str:\n    return 4"
        )
    )
    found = type_problems(mine.read(book, tmp_path / "mine", "02"), 2)
    assert {
        (problem.where.rpartition("/")[2].split(":")[0], problem.mend) for problem in found
    } == {
        ("core.py", "Mend it in your file."),
        ("ops.py", "This file is as the book has it: one of yours doesn't fit it."),
    }
