"""Where a reader stands: passes are kept by content, and counted from the book's list alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_book import MadeUpBook
from runnable_book import CORE, RunnableBook

from pairs import public_bug
from steplib import mine, passes, standing, starter, workfolder
from steplib.cli import main
from steplib.commands import check
from steplib.passes import Passes
from steplib.workfolder import WorkFolder

Golden = Callable[[str, str], None]
ENGINE = "minimal_engine.py"


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    return RunnableBook(tmp_path / "book")


@pytest.fixture
def folder(book: RunnableBook, tmp_path: Path) -> Path:
    """A working folder at chapter 01, with the untouched starter."""
    return started(book, tmp_path / "mine", 1).path


def started(book: MadeUpBook, place: Path, number: int) -> WorkFolder:
    laid = workfolder.to_start_in(place, book.root, number)
    laid.lay(starter.contents(book.load(), number))
    return laid


def states(book: MadeUpBook, folder: Path) -> list[str]:
    return [it.state for it in standing.standings(book.load(), WorkFolder.load(folder))]


def solved(book: RunnableBook, folder: Path) -> None:
    """The reader's file is right, and its check has passed."""
    text = book.read(CORE).replace("Greedy decoding", "My greedy decoding")
    (folder / CORE).write_text(text)
    passed(book, folder)


def passed(book: RunnableBook, folder: Path) -> None:
    own = mine.read(book.load(), folder, None)
    found = book.check(mine=own)
    assert found.is_passed
    passes.note(own, found)


def append(file: Path, text: str = "# later\n") -> None:
    file.write_text(file.read_text() + text)


def status(book: MadeUpBook, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    given = words or ("--mine", str(folder))
    assert main(["--root", str(book.root), "status", *given]) == 0
    return capsys.readouterr().out


def test_a_new_folder(
    book: RunnableBook, folder: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    golden("status_new", status(book, folder, capsys))


def test_a_pass_holds_until_an_edit_and_again_when_it_is_taken_back(
    book: RunnableBook, folder: Path
) -> None:
    solved(book, folder)
    assert states(book, folder) == ["given", "passed"]
    kept = (folder / CORE).read_bytes()
    append(folder / CORE)
    assert states(book, folder) == ["given", "changed"]
    (folder / CORE).write_bytes(kept)
    assert states(book, folder) == ["given", "passed"]


def test_what_was_changed_since_is_named(
    book: RunnableBook, folder: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    solved(book, folder)
    append(folder / CORE)
    append(folder / ENGINE)
    golden("status_changed", status(book, folder, capsys))


def test_a_file_that_is_gone_is_changed(book: RunnableBook, folder: Path) -> None:
    solved(book, folder)
    (folder / CORE).unlink()
    assert states(book, folder) == ["given", "changed"]


@public_bug("B119")
def test_a_copied_file_and_an_unknown_chapter_are_no_progress(
    book: RunnableBook, folder: Path
) -> None:
    (folder / "minisgl/core copy.py").write_text(book.read(CORE))
    shutil.copytree(folder, folder / "01-core-data-structures")
    record = {"99": {"at": "", "files": {}}}
    (folder / passes.NAME).write_text(json.dumps(record))
    assert states(book, folder) == ["given", "open"]


@public_bug("B119")
def test_an_edit_of_an_earlier_chapter_after_a_later_one_passed_is_shown_first(
    book: RunnableBook, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = mine.read(book.load(), folder, None)
    Passes.load(WorkFolder.load(folder)).note(0, {ENGINE: own.mine[ENGINE].sha256})
    solved(book, folder)
    append(folder / ENGINE)
    assert states(book, folder) == ["changed", "changed"]
    told = status(book, folder, capsys)
    assert "first to mend: chapter 00-minimal-engine\n" in told
    assert f"next  python tools/steps.py check 00 --mine {folder}\n" in told


def test_what_a_later_chapter_asks_to_change_is_no_edit(made_up: MadeUpBook) -> None:
    """core.py is chapter 01's and modified by 02; ops.py only 02's."""
    place = made_up.root.parent / "mine"
    one = started(made_up, place, 1)
    hashes = {path: workfolder.sha256(one.read(path) or b"") for path in one.laid}
    Passes.load(one).note(1, hashes)
    started(made_up, place, 2)
    append(place / CORE)
    assert states(made_up, place) == ["given", "passed", "open"]
    append(place / "minisgl/__init__.py")
    assert states(made_up, place) == ["given", "changed", "open"]


def test_a_record_that_cannot_be_read_is_no_pass_and_is_kept(
    book: RunnableBook, folder: Path
) -> None:
    (folder / passes.NAME).write_text('{"01": "yes"')
    assert states(book, folder) == ["given", "open"]
    solved(book, folder)
    assert states(book, folder) == ["given", "passed"]
    assert (folder / f"{passes.NAME}.bak-1").read_text() == '{"01": "yes"'


def test_a_pass_of_one_chapter_leaves_the_others_alone(book: RunnableBook, folder: Path) -> None:
    own = WorkFolder.load(folder)
    Passes.load(own).note(0, {})
    Passes.load(own).note(1, {})
    assert sorted(Passes.load(own).passed) == [0, 1]
    assert passes.has_passed(folder, 0) and not passes.has_passed(folder, 2)


def test_the_check_remembers_a_pass_and_no_failure(
    book: RunnableBook, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_found", lambda own, *_: book.check(mine=own))
    words = ["--root", str(book.root), "check", "01", "--mine", str(folder)]
    assert main(words) == 1
    assert states(book, folder) == ["given", "open"]
    shutil.copyfile(book.root / CORE, folder / CORE)
    assert main(words) == 0
    assert states(book, folder) == ["given", "passed"]


def test_a_pass_of_tests_alone_is_told_as_one(
    book: RunnableBook, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder that is at chapter 01 nothing but the tests of chapter 00 would run."""
    tests_of_the_engine_passed(book, folder)
    assert states(book, folder) == ["passed", "open"]
    told = status(book, folder, capsys)
    assert "00-minimal-engine          its tests passed on 2" in told
    assert "; main and parity were not run\n" in told
    append(folder / ENGINE)
    told = status(book, folder, capsys)
    assert "its tests passed before, changed since: minimal_engine.py\n" in told


def test_a_pass_of_tests_alone_takes_nothing_from_a_whole_one(
    book: RunnableBook, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(folder / ENGINE)
    own = mine.read(book.load(), folder, None)
    Passes.load(WorkFolder.load(folder)).note(0, {ENGINE: own.mine[ENGINE].sha256})
    tests_of_the_engine_passed(book, folder, "")
    assert "00-minimal-engine          passed on 2" in status(book, folder, capsys)
    append(folder / ENGINE)
    assert "passed before, changed since" in status(book, folder, capsys)
    tests_of_the_engine_passed(book, folder, "")
    assert "its tests passed on 2" in status(book, folder, capsys)


def tests_of_the_engine_passed(book: RunnableBook, folder: Path, edit: str = "# mine\n") -> None:
    """What `check 00 --mine` notes in a folder that is at chapter 01."""
    append(folder / ENGINE, edit)
    shutil.copyfile(book.root / CORE, folder / CORE)
    own = mine.read(book.load(), folder, "00")
    found = book.check(mine=own)
    earlier = replace(found.chapters[0], number=0, name="00-minimal-engine")
    passes.note(own, replace(found, chapters=[earlier]))


def test_nothing_is_written_where_start_was_not(book: RunnableBook, folder: Path) -> None:
    (folder / workfolder.MANIFEST).unlink()
    shutil.copyfile(book.root / CORE, folder / CORE)
    own = mine.read(book.load(), folder, "01")
    passes.note(own, book.check(mine=own))
    assert not (folder / passes.NAME).exists()


def test_a_folder_that_cannot_be_written_only_gets_a_note(
    book: RunnableBook, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    shutil.copyfile(book.root / CORE, folder / CORE)
    own = mine.read(book.load(), folder, None)
    found = book.check(mine=own)
    monkeypatch.setattr(passes, "write_atomically", refuse)
    passes.note(own, found)
    assert found.notes[-1] == f"the pass can't be remembered in {folder}: Permission denied"


def test_without_mine_the_folder_around_is_meant(
    book: RunnableBook,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder / "minisgl")
    assert "is at chapter 01-core-data-structures" in status(book, folder, capsys, "--mine", ".")
    assert main(["--root", str(book.root), "status"]) == 0
    monkeypatch.chdir(folder.parent)
    assert main(["--root", str(book.root), "status"]) == 2
    assert "lies in no working folder; name one with --mine DIR" in capsys.readouterr().err


@pytest.mark.parametrize("files", [{}, {ENGINE: "0"}, {"../../x": "0", "minisgl/core.py/x": "0"}])
def test_a_record_without_the_chapters_files_is_no_pass(
    book: RunnableBook, folder: Path, files: dict[str, str]
) -> None:
    (folder / passes.NAME).write_text(json.dumps({"01": {"at": "", "files": files}}))
    assert states(book, folder) == ["given", "open"]


def test_what_the_book_laid_is_not_remembered_as_a_pass(book: RunnableBook, folder: Path) -> None:
    (folder / CORE).write_text(book.read(CORE) + "# mine\n")
    own = mine.read(book.load(), folder, None)
    found = book.check(mine=own)
    earlier = replace(found.chapters[0], number=0, name="00-minimal-engine")
    passes.note(own, replace(found, chapters=[earlier, *found.chapters]))
    assert sorted(Passes.load(WorkFolder.load(folder)).passed) == [1]
