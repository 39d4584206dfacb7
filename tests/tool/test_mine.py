"""A reader's own files: never the reference by accident, and each way to be wrong has its words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MadeUpBook
from runnable_book import CORE, TEST, RunnableBook, without_what_differs

from steplib import cache, mine, minechecks, minereport, starter, workfolder
from steplib.book import Book
from steplib.check import check_chapters
from steplib.cli import main
from steplib.commands.check import context
from steplib.facts import Report
from steplib.paths import ROOT
from steplib.progress import Plain

Golden = Callable[[str, str], None]
SOLUTION = '''\
from minimal_engine import logits


class Loop:
    """Greedy decoding of one prompt, by a reader."""

    def __init__(self, prompt):
        self.ids = [*prompt]
        self.steps = 0

    def step(self):
        row = logits(self.ids)
        order = sorted(range(16), key=lambda i: -row[i])
        self.ids.append(order[0])
        self.steps += 1
        return tuple((i, row[i]) for i in order[:2])
'''
WRONG = SOLUTION.replace("self.ids.append(order[0])", "self.ids.append(order[1])")
EXECUTED = ["main", "parity", "tests"]


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    return RunnableBook(tmp_path / "book")


@pytest.fixture
def folder(book: RunnableBook, tmp_path: Path) -> Path:
    """A working folder with the untouched starters of chapter 01."""
    place = tmp_path / "mine"
    laid = workfolder.to_start_in(place, book.root, 1)
    laid.lay(starter.contents(book.load(), 1))
    return place


def read(book: MadeUpBook, folder: Path) -> mine.MyBook:
    return mine.read(book.load(), folder, None)


def failed(found: Report) -> list[str]:
    return [result.check for _, result in found.failures()]


def told(book: RunnableBook, folder: Path, *only: str) -> tuple[Report, str]:
    """The report on the folder, and its text."""
    own = read(book, folder)
    found = book.check(*only, mine=own)
    found.earlier_forms = None
    return found, without_what_differs("\n".join(minereport.lines(own, "DIR", found)))


def refused(book: RunnableBook, folder: Path, golden: Golden, name: str) -> Report:
    found, text = told(book, folder)
    assert not found.is_passed
    golden(f"mine_{name}", text)
    return found


def test_the_untouched_starter_fails_everything(
    book: RunnableBook, folder: Path, golden: Golden
) -> None:
    found = refused(book, folder, golden, "untouched")
    assert failed(found) == EXECUTED
    assert "passed" not in [r.verdict for r in found.chapters[0].results if r.check in EXECUTED]


def test_a_readers_own_solution_passes(book: RunnableBook, folder: Path, golden: Golden) -> None:
    (folder / CORE).write_text(SOLUTION)
    found, text = told(book, folder)
    golden("mine_passes", text)
    assert found.is_passed


def test_the_reference_is_not_used(book: RunnableBook, folder: Path, golden: Golden) -> None:
    """With a broken reference, which only the reader's files can make good."""
    (folder / CORE).write_text(SOLUTION)
    book.write(CORE, "raise RuntimeError('the reference')\n")
    assert told(book, folder)[0].is_passed


def test_wrong_files_fail_though_the_reference_is_right(
    book: RunnableBook, folder: Path, golden: Golden
) -> None:
    (folder / CORE).write_text(WRONG)
    assert failed(refused(book, folder, golden, "wrong")) == ["parity", "tests"]


def test_an_empty_file(book: RunnableBook, folder: Path, golden: Golden) -> None:
    (folder / CORE).write_text("")
    assert failed(refused(book, folder, golden, "empty")) == ["references", *EXECUTED]


def test_a_missing_file(book: RunnableBook, folder: Path, golden: Golden) -> None:
    (folder / CORE).unlink()
    assert failed(refused(book, folder, golden, "missing")) == ["files", "references", *EXECUTED]


def test_a_syntax_error(book: RunnableBook, folder: Path, golden: Golden) -> None:
    (folder / CORE).write_text(SOLUTION + "\ndef broken(:\n")
    found = refused(book, folder, golden, "syntax")
    assert failed(found) == ["files", "references", *EXECUTED]


def test_what_python_asks_ends_as_it_does(book: RunnableBook, folder: Path) -> None:
    (folder / CORE).write_text("f(1) + 2 = 3\n")
    _, text = told(book, folder, "files")
    assert "instead of '='? Mend the line." in text


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x = 1\0"], ids=["not_utf8", "null_byte"])
def test_a_file_that_is_no_text(data: bytes, book: RunnableBook, folder: Path) -> None:
    (folder / CORE).write_bytes(data)
    found, text = told(book, folder, "files")
    assert not found.is_passed
    assert re.search(r"minisgl/core\.py: this (is not valid|can't be read as) Python: ", text)


@pytest.mark.parametrize("path", ["minisgl/extra.py", "torch.py", "minisgl/data/table.json"])
def test_an_extra_file(path: str, book: RunnableBook, folder: Path) -> None:
    (folder / CORE).write_text(SOLUTION)
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("")
    found, text = told(book, folder)
    assert failed(found) == ["files"]
    assert f"{path}: no chapter up to 01 has this file. Move it out of your folder." in text


def test_copies_and_bytecode_are_no_extra_files(book: RunnableBook, folder: Path) -> None:
    for name in ("core.py.bak-1", "__pycache__/core.cpython-311.pyc"):
        (folder / "minisgl" / name).parent.mkdir(exist_ok=True)
        (folder / "minisgl" / name).write_text("")
    assert told(book, folder, "files")[0].is_passed


def test_a_link_to_the_reference(book: RunnableBook, folder: Path, golden: Golden) -> None:
    (folder / CORE).unlink()
    (folder / CORE).symlink_to(book.root / CORE)
    found = refused(book, folder, golden, "link")
    assert failed(found) == ["files", "references", *EXECUTED]


def test_a_link_to_the_references_package(book: RunnableBook, folder: Path) -> None:
    (folder / "minisgl").rename(folder.parent / "aside")
    (folder / "minisgl").symlink_to(book.root / "minisgl")
    assert failed(told(book, folder)[0]) == ["files", "references", *EXECUTED]


def test_the_reference_opened_by_its_path(book: RunnableBook, folder: Path) -> None:
    line = f"exec(open({str(book.root / CORE)!r}).read())\n"
    (folder / CORE).write_text(line)
    found, text = told(book, folder, *EXECUTED)
    assert failed(found) == EXECUTED
    assert "lies outside the tree and can't be opened here" in text


def test_one_place_in_the_page(book: RunnableBook, folder: Path) -> None:
    page = '# Loop\n\n```python title="minisgl/core.py"\n```\n'
    book.write("docs/chapters/01-core-data-structures.md", page)
    _, text = told(book, folder, "main")
    assert "  read      docs/chapters/01-core-data-structures.md, line 3\n" in text


def test_all_failing_tests_are_told(book: RunnableBook, folder: Path) -> None:
    second = TEST.replace("core", "more")
    book.write(second, book.read(TEST).replace("a_step_appends", "another_step_appends"))
    found, _ = told(book, folder, "tests")
    assert len(found.chapters[0].results[0].findings) == 2


def test_the_verdict_comes_before_the_modules(book: RunnableBook, folder: Path) -> None:
    """Sixty modules take few lines, each with its path and its hash."""
    own = read(book, folder)
    found = book.check("files", mine=own)
    names = [f"part{number:02d}.py" for number in range(60)]
    loaded = {
        name: (f"minisgl/layers/{name}", f"{number:08x}" * 8) for number, name in enumerate(names)
    }
    found.chapters[0].results[0].data["modules"] = loaded
    verdict, _, modules = "\n".join(minereport.lines(own, "DIR", found)).rpartition("\n\n")
    assert "1 chapter passed in" in verdict
    assert "minisgl" not in verdict
    head, whose, *rows = modules.splitlines()
    assert head.startswith("60 modules were imported from DIR;")
    assert whose == "not from your folder:"
    assert len(rows) < 20 and max(map(len, rows)) <= 100
    told = " ".join(rows).removeprefix("  minisgl/layers/").split()
    assert told == [word for n, name in enumerate(names) for word in (name, f"{n:08x}")]


def test_results_are_kept_by_content(book: RunnableBook, folder: Path) -> None:
    """Of the reader's files as of the reference; neither stands for the other's coverage."""
    (folder / CORE).write_text(SOLUTION)
    first = verdicts(book, folder)
    assert [r.is_cached for r in first] == [False, False]
    assert [r.is_cached for r in verdicts(book, folder)] == [True, True]
    assert verdicts(book, folder)[0].data["modules"] == first[0].data["modules"]
    (folder / CORE).write_text(WRONG)
    assert [r.is_passed for r in verdicts(book, folder)] == [True, False]
    (folder / CORE).write_bytes((book.root / CORE).read_bytes())
    assert all(r.is_passed for r in verdicts(book, folder))
    assert book.check("main", "tests", "untouched", kept=cache.Results(book.root)).is_passed


def verdicts(book: RunnableBook, folder: Path) -> list:  # type: ignore[type-arg]
    kept = cache.Results(book.root)
    return book.check("main", "tests", mine=read(book, folder), kept=kept).chapters[0].results


def test_earlier_chapters_tests_run_on_the_newest_files(made_up: MadeUpBook) -> None:
    place = made_up.root.parent / "mine"
    workfolder.to_start_in(place, made_up.root, 2).lay(starter.contents(made_up.load(), 2))
    own = read(made_up, place)
    checks_of = minechecks.checks_of(own, "DIR")
    assert [check.name for check in checks_of(own.chapter(1))] == ["tests"]
    assert own.tree(1).files.keys() == own.tree(2).files.keys()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("two_chapters", ["0", "1", "--mine", "FOLDER"]),
        ("later_chapter", ["1", "--mine", "FOLDER"]),
        ("no_folder", ["1", "--mine", "nowhere"]),
        ("the_book", ["1", "--mine", "BOOK"]),
        ("all_alone", ["--all"]),
        ("no_chapter", ["--mine", "EMPTY"]),
    ],
)
def test_wrong_use(
    name: str,
    words: list[str],
    book: RunnableBook,
    tmp_path: Path,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    workfolder.to_start_in(tmp_path / "mine", book.root, 0).lay(starter.contents(book.load(), 0))
    places = {"FOLDER": "mine", "BOOK": str(book.root), "EMPTY": "empty"}
    given = [places.get(word, word) for word in words]
    assert main(["--root", str(book.root), "check", *given]) == 2
    golden(f"mine_{name}", capsys.readouterr().err)


def test_the_real_chapter_08(tmp_path: Path) -> None:
    """Its untouched starter fails main, parity and every test; its reference passes."""
    book = Book.load(ROOT)
    folder = workfolder.to_start_in(tmp_path / "mine", ROOT, 8)
    folder.lay(starter.contents(book, 8))
    found = _checked(mine.read(book, folder.path, None))
    results = {result.check: result for result in found.chapters[0].results}
    assert failed(found) == EXECUTED
    probes = [
        name
        for file in ROOT.glob("tests/test_ch08_*.py")
        for name in re.findall(r"^def probe_(\w+)", file.read_text(), re.MULTILINE)
    ]
    assert len(results["tests"].findings) == len(probes)
    folder.replace({path: file.data for path, file in book.tree(8).files.items()})
    assert _checked(mine.read(book, folder.path, None)).is_passed


def _checked(own: mine.MyBook) -> Report:
    chapters = [own.newest]
    return check_chapters(
        context(own, is_fresh=True, model="tiny-qwen3"),
        chapters,
        2,
        Plain(chapters),
        only=("files", "references", *EXECUTED),
        checks_of=minechecks.checks_of(own, "DIR"),
    )


def test_the_command(
    book: RunnableBook, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with 1 for the starter, and the facts are in the JSON file too."""
    facts = tmp_path / "facts.json"
    (folder / CORE).write_text("def broken(:\n")
    words = ["check", "--mine", str(folder), "--json", str(facts), "-j", "1"]
    assert main(["--root", str(book.root), *words]) == 1
    out = capsys.readouterr().out
    assert "minisgl/core.py:1: this is not valid Python: " in out
    assert f"  next      python tools/steps.py check 01 --mine {folder}\n" in out
    assert not json.loads(facts.read_text())["passed"]
