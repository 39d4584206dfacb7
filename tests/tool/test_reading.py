"""Where to read after a failure: the closest section of the page, and never a wrong line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runnable_book import CORE, MODEL, TEST, RunnableBook

from steplib import starter
from steplib.book import Book, Chapter
from steplib.context import test_files as files_of
from steplib.facts import Finding
from steplib.paths import ROOT
from steplib.reading.place import place_of
from steplib.reading.sections import sections

BOOK = Book.load(ROOT)
PAGE = """\
# Loop

## Self-test

The `step` of a loop.

## The files you will write

<!-- begin: contracts 01 -->

```python title="minisgl/core.py"
## No heading
```

<!-- end -->

## The idea

### How it begins

A `Loop` begins with a prompt.

```text
### no heading either
```

### One token more

`step` appends one.

## The reference code

### The loop

`Loop.step` stands here.

## What main prints

Tokens.
"""


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    made = RunnableBook(tmp_path / "book")
    made.write("docs/chapters/01-core-data-structures.md", PAGE)
    return made


def place(book: RunnableBook, check: str, message: str) -> str:
    """The place without the page's name."""
    loaded = book.load()
    found = place_of(loaded, loaded.chapter(1), check, Finding(message))
    return found.removeprefix("docs/chapters/01-core-data-structures.md, ")


def unwritten(number: int, path: str, name: str) -> str:
    return f"it raised NotImplementedError: chapter {number:02d}, {path}: write {name}"


@pytest.mark.parametrize("check", ["main", "parity", "tests"])
def test_a_body_to_write_leads_to_the_section_that_names_it(book: RunnableBook, check: str) -> None:
    told = place(book, check, unwritten(1, CORE, "Loop.step"))
    assert told == 'line 27: "One token more"'


def test_a_method_without_a_name_of_its_own_leads_to_its_class(book: RunnableBook) -> None:
    told = place(book, "tests", unwritten(1, CORE, "Loop.__init__"))
    assert told == 'line 19: "How it begins"'


def test_what_no_section_names_leads_to_the_contract(book: RunnableBook) -> None:
    assert place(book, "tests", unwritten(1, CORE, "Other.thing")) == "line 11"


def test_a_pair_leads_to_what_its_name_is_about(book: RunnableBook) -> None:
    told = f"{TEST}::a_step_appends_the_best_token on your files: failed: ids"
    assert place(book, "tests", told) == 'line 27: "One token more"'


@pytest.mark.parametrize("check", ["main", "parity"])
def test_wrong_tokens_lead_to_what_main_prints(book: RunnableBook, check: str) -> None:
    told = place(book, check, f"{MODEL}: token 3 of prompt 1 differs")
    assert told == 'line 37: "What main prints"'


@pytest.mark.parametrize("check", ["files", "references", "types"])
def test_what_is_wrong_with_a_file_leads_to_its_contract(book: RunnableBook, check: str) -> None:
    assert place(book, check, f"{CORE}: the file is missing") == "line 11"


def test_without_a_page_there_is_no_place(book: RunnableBook) -> None:
    (book.root / "docs/chapters/01-core-data-structures.md").unlink()
    assert place(book, "main", "no token") == ""


@pytest.mark.parametrize(
    ("number", "test", "title"),
    [
        (2, "rotary.py::only_the_first_rotary_dim_channels_turn", "RoPE as a table"),
        (9, "matching.py::a_chain_of_thousands_of_nodes_is_no_trouble", "No recursion"),
        (10, "chunks.py::what_a_chunk_samples_goes_nowhere", "What a chunk samples"),
        (10, "chunks.py::an_abort_between_chunks_gives_everything_back", "An abort between chunks"),
        (15, "stop.py::nothing_is_shown_behind_a_stop", "Stop strings"),
    ],
)
def test_pairs_of_the_book(number: int, test: str, title: str) -> None:
    told = f"tests/test_ch{number:02d}_{test} on your files: failed: x"
    assert place_of(BOOK, BOOK.chapter(number), "tests", Finding(told)).endswith(f'"{title}"')


def test_body_of_the_book() -> None:
    told = unwritten(10, "minisgl/scheduler/prefill.py", "PrefillAdder.try_add_one")
    found = place_of(BOOK, BOOK.chapter(10), "parity", Finding(told))
    assert found.endswith('"A budget for each step"')


def messages(chapter: Chapter) -> list[str]:
    """The error of each unwritten body, and the first pair of each test file."""
    found = [
        unwritten(chapter.number, path, name)
        for path, it in starter.starters(BOOK, chapter.number).items()
        for name in it.tasks
    ]
    for file in files_of(BOOK, chapter):
        first = re.search(r"^def probe_(\w+)", file.read_text(), re.MULTILINE)
        found += [f"tests/{file.name}::{first[1]} on your files: failed: x"] if first else []
    return [*found, "token 3 of prompt 1 differs"]


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_each_place_is_a_heading_or_a_contract_and_no_solution(chapter: Chapter) -> None:
    page = ROOT / "docs" / "chapters" / f"{chapter.name}.md"
    rows = page.read_text(encoding="utf-8").split("\n")
    solutions = range(rows.index("## The reference code"), rows.index("## What main prints"))
    for message in messages(chapter):
        told = place_of(
            BOOK, chapter, "parity" if "token" in message else "tests", Finding(message)
        )
        if not told:
            continue
        found = re.fullmatch(r'docs/chapters/\S+\.md, line (\d+)(?:: "(.+)")?', told)
        assert found, told
        row = rows[int(found[1]) - 1]
        title = row.lstrip("# ").replace("`", "")
        assert title == found[2] if found[2] else row.startswith('```python title="'), message
        assert int(found[1]) - 1 not in solutions, message


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_the_pages_have_sections_that_explain(chapter: Chapter) -> None:
    page = ROOT / "docs" / "chapters" / f"{chapter.name}.md"
    found = sections(page.read_text(encoding="utf-8"))
    assert sum(section.is_explanation for section in found) >= 3
    assert "What main prints" in [section.title for section in found]
