"""Hints: every task has its own three, none gives the solution away, and each call shows one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MadeUpBook

from steplib import starter
from steplib.book import Book, Chapter
from steplib.cli import main
from steplib.errors import UserError
from steplib.hints import load, next_hint, showing
from steplib.hints.solution import solution
from steplib.hints.tasks import find
from steplib.passes import Passes
from steplib.paths import ROOT
from steplib.workfolder import WorkFolder

Golden = Callable[[str, str], None]
BOOK = Book.load(ROOT)
LONG = 30  # a line of this many characters is a statement that nobody writes by chance
HINTS = """\
[[task]]
name = "add a number"
symbols = ["minisgl/core.py::added"]
nudge = "How many functions are new?"
idea = "Only one is, and a test says what it returns."
outline = "Return the number that the test asks for."

[[task]]
name = "double it"
symbols = ["minisgl/ops.py::double"]
nudge = "What is twice the number, and what does the other file give?"
idea = '''
It is a product of two numbers. One of them is the argument, and the other comes from the file
that the chapter changes.
'''
outline = "Call the other function, and multiply."
"""


@pytest.fixture
def steps(made_up: MadeUpBook, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command on the made-up book, whose chapter 02 has hints; what it says."""
    made_up.write("steps/02-op-layer/hints.toml", HINTS)

    def run(*words: str, status: int = 0) -> str:
        assert main(["--root", str(made_up.root), *words]) == status
        out, err = capsys.readouterr()
        return err if status else out

    return run


@pytest.fixture
def folder(tmp_path: Path, steps: Callable[..., str]) -> Path:
    """A working folder of chapter 02."""
    steps("start", "2", "--into", str(tmp_path / "mine"))
    return tmp_path / "mine"


@functools.cache
def starters(number: int) -> dict[str, starter.Starter]:
    return starter.starters(BOOK, number)


def to_write(number: int) -> list[str]:
    """What `start` leaves to write, as `path::name`."""
    return [f"{path}::{name}" for path, it in starters(number).items() for name in it.tasks]


def statements(chapter: Chapter) -> set[str]:
    """The long lines of the chapter's files, without their spaces."""
    files = BOOK.reference(chapter.number).files
    found = starters(chapter.number)
    written = {row for path in found for row in files[path].text().split("\n")}
    given = {row for it in found.values() for row in it.text.split("\n")}
    return {text for row in written - given if len(text := "".join(row.split())) >= LONG}


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_every_body_to_write_belongs_to_one_task(chapter: Chapter) -> None:
    wanted = to_write(chapter.number)
    named = []
    for symbol in (symbol for task in load(chapter) for symbol in task.symbols):
        is_whole = "::" not in symbol
        named += [it for it in wanted if it.startswith(f"{symbol}::")] if is_whole else [symbol]
    assert sorted(named) == sorted(wanted)
    names = [task.name for task in load(chapter)]
    assert len(set(names)) == len(names) and all(names)


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_hints_are_texts_of_their_own(chapter: Chapter) -> None:
    texts = [task.hint(step) for task in load(chapter) for step in (1, 2, 3)]
    assert len(set(texts)) == len(texts)
    assert all(len(text) > 30 and text[-1] in ".?" for text in texts)


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_no_hint_holds_a_statement_of_the_solution(chapter: Chapter) -> None:
    given_away = statements(chapter)
    assert given_away
    for task in load(chapter):
        told = "".join((task.nudge + task.idea + task.outline).split())
        assert not [text for text in given_away if text in told], task.name


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_every_stub_and_file_leads_to_its_task(chapter: Chapter) -> None:
    tasks = load(chapter)
    for symbol in to_write(chapter.number):
        path, _, name = symbol.partition("::")
        [task] = find(tasks, chapter, f"chapter {chapter.number:02d}, {path}: write {name}")
        assert {symbol, path} & set(task.symbols)
        for file in (path, f"../mine/{path}", f"/home/me/mine/{path}"):
            assert task in find(tasks, chapter, file)
        assert task in find(tasks, chapter, name)


def test_each_call_shows_one_step_more(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    asked = ("hint", "2", "double", "it", "--mine", str(folder))
    for count, name in enumerate(("nudge", "idea", "outline"), 1):
        said = steps(*asked)
        golden(f"hint_{name}", said)
        assert f"{name} ({count} of 3)" in said and said.count(" of 3)") == 1
    assert steps(*asked) == said
    assert "added()" not in said


def test_all_that_was_seen_comes_again_on_request(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    asked = ("hint", "2", "double", "--mine", str(folder))
    steps(*asked)
    steps(*asked)
    said = steps(*asked, "--again")
    golden("hint_again", said)
    assert steps(*asked, "--again") == said
    assert "(3 of 3)" in steps(*asked)


def test_the_list_says_what_was_seen(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    golden("hint_list", steps("hint", "2"))
    steps("hint", "2", "ops.py", "--mine", str(folder))
    steps("hint", "2", "double", "--mine", str(folder))
    golden("hint_list_mine", steps("hint", "2", "--mine", str(folder)))


def test_inside_a_working_folder_it_needs_no_name(
    steps: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert "(1 of 3)" in steps("hint", "2", "double")
    assert "(2 of 3)" in steps("hint", "2", "double")


def test_without_a_folder_the_step_is_chosen(steps: Callable[..., str], golden: Golden) -> None:
    assert "(1 of 3)" in steps("hint", "2", "core.py")
    golden("hint_step", steps("hint", "2", "core.py", "--step", "2"))


def test_the_solution_comes_on_request(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    said = steps("hint", "2", "double", "--mine", str(folder), "--solution")
    golden("hint_solution", said)
    assert "return x * added()" in said
    assert "solution" in steps("hint", "2", "--mine", str(folder))


def test_the_solution_comes_after_a_pass(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    Passes.load(WorkFolder.load(folder)).note(2, {})
    asked = ("hint", "2", "double", "--mine", str(folder))
    said = [steps(*asked) for _ in range(4)]
    assert ["return x * added()" in text for text in said] == [False, False, False, True]
    golden("hint_outline_after_a_pass", said[2])


def test_watch_gets_the_next_step(made_up: MadeUpBook, folder: Path) -> None:
    book = made_up.load()
    failing = "chapter 02, minisgl/ops.py: write double"
    for count in (1, 2, 3, 3):
        said = next_hint(book, 2, folder, failing)
        assert f" ({count} of 3)" in said and said.count(" of 3)") == 1
    assert "add a number" in next_hint(book, 2, folder, "minisgl/core.py::middle")
    assert "add a number" in next_hint(book, 2, folder, "minisgl/__init__.py")
    for path in ("minisgl/core.py", "minisgl/ops.py"):
        (folder / path).write_text("")
    with pytest.raises(UserError, match="no task"):
        next_hint(book, 2, folder, "minisgl/__init__.py")


def test_of_a_files_tasks_the_first_unwritten_one_is_meant(folder: Path) -> None:
    chapter = BOOK.chapter(5)
    path = "minisgl/attention/torch_native.py"
    first, second, *_ = (task for task in load(chapter) if path in task.paths)
    (folder / "minisgl/attention").mkdir()
    text = starters(5)[path].text
    (folder / path).write_text(text)
    assert showing.chosen(load(chapter), chapter, path, folder) == first
    for symbol in first.symbols:
        text = text.replace(f'write {symbol.partition("::")[2]}"', '"')
    (folder / path).write_text(text)
    assert showing.chosen(load(chapter), chapter, path, folder) == second


def test_a_solution_has_the_helpers_that_a_starter_leaves_out() -> None:
    chapter = BOOK.chapter(2)
    [task] = find(load(chapter), chapter, "BaseOP.load_state_dict")
    said = solution(BOOK, 2, task, starters(2))
    assert "# in BaseOP\n    def load_state_dict(" in said
    assert "def _take(" in said and "def _members(" in said


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=lambda chapter: chapter.name)
def test_every_task_has_a_solution(chapter: Chapter) -> None:
    for task in load(chapter):
        said = solution(BOOK, chapter.number, task, starters(chapter.number))
        for symbol in task.symbols:
            name = symbol.partition("::")[2].rpartition(".")[2]
            assert f"def {name}(" in said, symbol


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown_task", ("2", "duoble")),
        ("no_task_like_it", ("2", "zzz")),
        ("another_chapter", ("2", "chapter 01, minisgl/core.py: write first")),
        ("no_hints", ("1",)),
        ("step_and_solution", ("2", "double", "--step", "1", "--solution")),
        ("step_and_again", ("2", "double", "--step", "1", "--again")),
        ("again_and_none_seen", ("2", "double", "--again")),
        ("no_folder", ("2", "double", "--mine", "/nowhere")),
    ],
)
def test_hint_refuses(
    name: str, words: tuple[str, ...], steps: Callable[..., str], golden: Golden
) -> None:
    golden(f"hint_{name}", steps("hint", *words, status=2))


def test_a_damaged_record_is_named(steps: Callable[..., str], folder: Path, golden: Golden) -> None:
    (folder / ".handbook-hints.json").write_text("[]")
    golden("hint_damaged", steps("hint", "2", "double", "--mine", str(folder), status=2))
