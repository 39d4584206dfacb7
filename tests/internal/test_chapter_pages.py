"""Each chapter's page says of every file that its reader writes what is to be in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplib import markers
from steplib.book import Book

BOOK = Book.load()
CHAPTERS = {f"{chapter.number:02d}": chapter for chapter in BOOK.chapters}


@pytest.mark.parametrize("number", list(CHAPTERS))
def test_a_page_has_the_contract_of_each_file(number: str) -> None:
    chapter = CHAPTERS[number]
    [page] = (Path(BOOK.root) / "docs" / "chapters").glob(f"{number}-*.md")
    blocks = markers.blocks(page.read_text(encoding="utf-8"))
    shown = [path for each in blocks if each.kind == "contracts" for path in each.args[1:]]
    if any(each.kind == "contracts" and not each.args[1:] for each in blocks):
        return  # all files at once
    assert sorted(shown) == sorted([*chapter.manifest.creates, *chapter.manifest.modifies])
