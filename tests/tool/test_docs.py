"""Generated blocks: filling, freshness, hand edits, and what the command says about each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MadeUpBook, shown

from steplib import cli, docs, markers, outputs
from steplib.book import Book
from steplib.markers import MarkerError

Golden = Callable[[str, str], None]
PAGE = "docs/chapters/02-op-layer.md"
CODE = "# Ops\n\n<!-- begin: code minisgl/core.py::added -->\n<!-- end -->\n\nAfter.\n"


@pytest.fixture
def paged(made_up: MadeUpBook) -> MadeUpBook:
    """The made-up book with a page for each chapter; chapter 02's quotes a function."""
    made_up.write("docs/chapters/00-minimal-engine.md", "# Engine\n")
    made_up.write("docs/chapters/01-core-data-structures.md", "# Core\n")
    made_up.write(PAGE, CODE)
    return made_up


def fill(book: MadeUpBook, page: str = PAGE) -> str:
    written = docs.write(book.load(), book.root / page)
    assert not written.problems, shown(written.problems)
    return book.read(page)


def test_an_empty_block_is_filled_and_is_fresh_afterwards(paged: MadeUpBook) -> None:
    text = fill(paged)
    assert re.search(r"<!-- begin: code minisgl/core.py::added \| sha256:[0-9a-f]{16} -->", text)
    assert "    def added() -> int:\n        return 4\n" in text
    assert text.startswith("# Ops\n") and text.endswith("<!-- end -->\n\nAfter.\n")
    assert docs.stale_blocks(paged.load(), 2) == []


def test_filling_twice_changes_nothing(paged: MadeUpBook) -> None:
    once = fill(paged)
    assert docs.write(paged.load(), paged.root / PAGE).changed == []
    assert paged.read(PAGE) == once


def test_a_block_that_was_never_filled(paged: MadeUpBook, golden: Golden) -> None:
    golden("docs_never_filled", shown(docs.stale_blocks(paged.load(), 2)))


def test_a_stale_block(paged: MadeUpBook, golden: Golden) -> None:
    fill(paged)
    paged.write("minisgl/core.py", paged.read("minisgl/core.py").replace("return 4", "return 5"))
    golden("docs_stale_block", shown(docs.stale_blocks(paged.load(), 2)))
    assert "return 5" in fill(paged)


def test_a_hand_edited_block(paged: MadeUpBook, golden: Golden) -> None:
    paged.write(PAGE, fill(paged).replace("return 4", "return 44"))
    golden("docs_hand_edited_block", shown(docs.stale_blocks(paged.load(), 2)))
    written = docs.write(paged.load(), paged.root / PAGE)
    assert len(written.overwritten) == 1
    assert "return 44" not in paged.read(PAGE)


def test_a_hand_edited_hash_is_seen(paged: MadeUpBook) -> None:
    paged.write(PAGE, re.sub("sha256:[0-9a-f]{4}", "sha256:0000", fill(paged)))
    assert len(docs.stale_blocks(paged.load(), 2)) == 1


def test_a_deleted_content_is_seen(paged: MadeUpBook) -> None:
    text = re.sub(r"(sha256:\w+ -->).*?(<!-- end -->)", r"\1\n\2", fill(paged), flags=re.S)
    paged.write(PAGE, text)
    assert "by hand" in docs.stale_blocks(paged.load(), 2)[0].message


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("unknown_kind", "<!-- begin: cod minisgl/core.py -->\n<!-- end -->"),
        ("unknown_file", "<!-- begin: code minisgl/cor.py -->\n<!-- end -->"),
        ("unknown_symbol", "<!-- begin: code minisgl/core.py::add -->\n<!-- end -->"),
        ("unknown_chapter", "<!-- begin: tree 09 -->\n<!-- end -->"),
        ("unknown_upstream", "<!-- begin: upstream minisgl/core.py::Rec -->\n<!-- end -->"),
        ("unknown_figure", "<!-- begin: figure nowhere -->\n<!-- end -->"),
        ("unknown_result", "<!-- begin: measured nowhere -->\n<!-- end -->"),
        ("no_tests", "<!-- begin: tests -->\n<!-- end -->"),
        ("output_without_model", "<!-- begin: output 02 -->\n<!-- end -->"),
    ],
)
def test_a_block_that_cannot_be_made(
    paged: MadeUpBook, golden: Golden, name: str, block: str
) -> None:
    paged.write(PAGE, f"# Ops\n\n{block}\n")
    golden(f"docs_{name}", shown(docs.write(paged.load(), paged.root / PAGE).problems))
    assert paged.read(PAGE) == f"# Ops\n\n{block}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_end", "<!-- begin: tree 02 -->\n"),
        ("no_begin", "<!-- end -->\n"),
        ("nested", "<!-- begin: tree 02 -->\n<!-- begin: tree 01 -->\n<!-- end -->\n"),
        ("unreadable", "<!-- begin: tree 02 | sha256:xyz -->\n<!-- end -->\n"),
        ("two_on_a_line", "<!-- begin: tree 02 --> <!-- end -->\n"),
    ],
)
def test_a_bad_marker(paged: MadeUpBook, golden: Golden, name: str, text: str) -> None:
    paged.write(PAGE, "# Ops\n\n" + text)
    golden(f"docs_marker_{name}", shown(docs.stale_blocks(paged.load(), 2)))


def test_a_missing_page(paged: MadeUpBook, golden: Golden) -> None:
    paged.remove(PAGE)
    golden("docs_missing_page", shown(docs.stale_blocks(paged.load(), 2)))


def test_a_translated_page_is_checked_with_its_chapter(paged: MadeUpBook) -> None:
    fill(paged)
    paged.write("docs/chapters/02-op-layer.zh.md", CODE)
    assert len(docs.stale_blocks(paged.load(), 2)) == 1
    fill(paged, "docs/chapters/02-op-layer.zh.md")
    assert docs.stale_blocks(paged.load(), 2) == []


def test_markers_inside_a_fence_are_text() -> None:
    text = "````markdown\n<!-- begin: tree 02 -->\n```\nx\n```\n<!-- end -->\n````\n"
    assert markers.blocks(text) == []


def test_an_indented_block_keeps_its_indent(paged: MadeUpBook) -> None:
    paged.write(PAGE, '??? question "Why?"\n\n    <!-- begin: tree -->\n    <!-- end -->\n')
    text = fill(paged)
    assert "\n    ```text\n" in text
    assert docs.stale_blocks(paged.load(), 2) == []
    assert fill(paged) == text


def test_a_marker_error_names_its_line() -> None:
    with pytest.raises(MarkerError) as caught:
        markers.blocks("one\n\n<!-- end -->")
    assert caught.value.line == 3


def test_code_takes_the_form_of_the_pages_chapter(paged: MadeUpBook) -> None:
    page = "docs/chapters/01-core-data-structures.md"
    paged.write(page, "<!-- begin: code minisgl/core.py -->\n<!-- end -->\n")
    assert "def added" not in fill(paged, page)
    paged.write(page, "<!-- begin: code minisgl/core.py 02 open -->\n<!-- end -->\n")
    text = fill(paged, page)
    assert "def added" in text and '```python title="minisgl/core.py"' in text


def test_a_tree_shows_marks(paged: MadeUpBook, golden: Golden) -> None:
    paged.write(PAGE, "<!-- begin: tree -->\n<!-- end -->\n")
    golden("docs_tree", fill(paged))


def test_contracts_of_a_modified_file_show_what_is_new(paged: MadeUpBook, golden: Golden) -> None:
    paged.write(PAGE, "<!-- begin: contracts -->\n<!-- end -->\n")
    golden("docs_contracts", fill(paged))


def test_contracts_of_some_files_only(paged: MadeUpBook) -> None:
    paged.write(PAGE, "<!-- begin: contracts 02 minisgl/core.py -->\n<!-- end -->\n")
    text = fill(paged)
    assert text.count("```python title=") == 1 and 'title="minisgl/core.py (modified)"' in text
    paged.write(PAGE, "<!-- begin: contracts 02 minisgl/cor.py -->\n<!-- end -->\n")
    [problem] = docs.write(paged.load(), paged.root / PAGE).problems
    assert "writes no minisgl/cor.py" in problem.mend and "minisgl/core.py" in problem.mend


def test_the_tests_of_a_chapter_read_as_sentences(paged: MadeUpBook, golden: Golden) -> None:
    paged.write(
        "tests/test_ch02_ops.py",
        "def probe_rmsnorm_keeps_its_input(seed):\n    return 1\n\n\n"
        "def judge_rmsnorm_keeps_its_input(seed, got):\n    pass\n\n\n"
        'def probe_x(seed):\n    """Doubling twice is times four."""\n',
    )
    paged.write(PAGE, "<!-- begin: tests -->\n<!-- end -->\n")
    golden("docs_tests", fill(paged))


def test_a_measured_table(paged: MadeUpBook, golden: Golden) -> None:
    paged.write(
        "tools/bench/results/speed.json",
        '{"command": "bench.py", "hardware": "2 cores", "date": "2026-01-02",'
        ' "columns": ["engine", "tokens/s"], "rows": [["a", 12.3456], ["b", 7]]}',
    )
    paged.write(PAGE, "<!-- begin: measured speed -->\n<!-- end -->\n")
    golden("docs_measured", fill(paged))


@pytest.mark.parametrize("raw", ["[]", "{", '{"command": 1}', '{"columns": ["a"], "rows": [[]]}'])
def test_an_unusable_result_is_one_sentence(paged: MadeUpBook, raw: str) -> None:
    paged.write("tools/bench/results/speed.json", raw)
    paged.write(PAGE, "<!-- begin: measured speed -->\n<!-- end -->\n")
    (problem,) = docs.write(paged.load(), paged.root / PAGE).problems
    assert "tools/bench/results/speed.json" in problem.mend


MAIN = """\
import argparse, time
import book
from minisgl.core import added
parser = argparse.ArgumentParser()
parser.add_argument("--model")
model = parser.parse_args().model
print("answer", added(), "from", model)
print(f"took {time.time():.3f} s, {time.time():8.1f} tokens/s")
"""


@pytest.fixture
def printing(paged: MadeUpBook, monkeypatch: pytest.MonkeyPatch) -> MadeUpBook:
    """Chapter 02's page shows what its main prints, on a checkpoint that is only a name."""
    paged.share()
    paged.write("steps/02-op-layer/main.py", MAIN)
    paged.write(PAGE, "<!-- begin: output 02 pretended -->\n<!-- end -->\n")
    model = paged.root / "models" / "pretended"
    model.mkdir(parents=True)
    monkeypatch.setattr(outputs.models, "ensure", lambda name: model)
    monkeypatch.setattr(outputs.models, "present", lambda name: True)
    monkeypatch.setattr(outputs.models, "sha256", lambda name: "0" * 64)
    return paged


def test_output_comes_from_a_real_run_without_times_and_paths(
    printing: MadeUpBook, golden: Golden
) -> None:
    golden("docs_output", fill(printing))
    assert docs.stale_blocks(printing.load(), 2) == []


def test_output_is_stale_when_the_tree_prints_something_else(printing: MadeUpBook) -> None:
    fill(printing)
    core = printing.read("minisgl/core.py")
    printing.write("minisgl/core.py", core.replace("return 4", "return 5"))
    assert "is stale" in docs.stale_blocks(printing.load(), 2)[0].message


def test_output_is_kept_until_something_changes(
    printing: MadeUpBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(printing)

    def no_run(*_: object) -> str:
        raise AssertionError("it was run again")

    monkeypatch.setattr(outputs, "_run", no_run)
    assert docs.stale_blocks(printing.load(), 2) == []


def test_output_of_a_main_that_fails_is_one_sentence(printing: MadeUpBook, golden: Golden) -> None:
    printing.write("steps/02-op-layer/main.py", "raise ValueError('the pool is empty')\n")
    golden("docs_output_fails", shown(docs.write(printing.load(), printing.root / PAGE).problems))


def test_output_without_its_checkpoint_is_kept_and_named(
    printing: MadeUpBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(printing)
    monkeypatch.setattr(outputs.models, "present", lambda name: False)
    watch = docs.Watch()
    assert docs.stale_blocks(printing.load(), 2, watch) == []
    assert len(watch.notes) == 1 and "pretended is not here" in watch.notes[0]


def test_the_command_names_file_line_block_and_mend(
    paged: MadeUpBook, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert cli.main(["--root", str(paged.root), "docs"]) == 0
    assert cli.main(["--root", str(paged.root), "docs", "--check"]) == 0
    paged.write(PAGE, paged.read(PAGE).replace("return 4", "return 44"))
    assert cli.main(["--root", str(paged.root), "docs", "--check"]) == 1
    golden("docs_command", capsys.readouterr().out)


def test_the_command_refuses_a_page_that_is_not_there(
    paged: MadeUpBook, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--root", str(paged.root), "docs", "nowhere.md"]) == 2
    assert "There is no page nowhere.md" in capsys.readouterr().err


def test_every_page_of_the_handbook_has_readable_markers() -> None:
    pages = docs.pages(Path(__file__).resolve().parents[2])
    assert len(pages) > 10
    for page in pages:
        for block in markers.blocks(page.read_text(encoding="utf-8")):
            assert block.kind in docs.blocks.KINDS, f"{page}:{block.line}: {block.spec}"


def test_the_blocks_outside_the_chapters_are_fresh() -> None:
    """Chapter pages are looked at by `check`; nothing else would look at these."""
    book = Book.load()
    others = [page for page in docs.pages(book.root) if page.parent.name != "chapters"]
    assert [str(problem) for problem in docs.problems(book, others)] == []
