"""Working folders: what is laid, that a reader's work is never lost, and what the starters hold."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import CORE, MadeUpBook

from steplib import starter
from steplib.book import Book
from steplib.cli import main
from steplib.errors import UserError
from steplib.hints.seen import Seen
from steplib.paths import ROOT
from steplib.symbols import is_public, symbols

Golden = Callable[[str, str], None]
MINE = "def first() -> int:\n    return 100\n"
RICH = '''\
"""What the module is for."""

from collections.abc import Iterator

_LIMIT, SIZE = 3, 4
_SECRET = 5
_DEFAULT = 6


class Pool(list[int]):
    """Hands numbers out."""

    kind: str = "plain"

    def __init__(self, size: int = _DEFAULT) -> None:
        # the body's own comment
        self.size: int = size
        self._hidden = _SECRET

    def take(self) -> int:
        """Give one number."""
        return self._next()

    @property
    def left(self) -> int:
        return self.size

    def walk(self) -> Iterator[int]:
        yield from range(self.size)

    # of the helper
    def _next(self) -> int:
        return 1


def _helper() -> int:
    return 2
'''


@pytest.fixture
def steps(
    made_up: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a command on the made-up book; what it says."""

    def run(*words: str, status: int = 0) -> str:
        assert main(["--root", str(made_up.root), *words]) == status
        out, err = capsys.readouterr()
        return err if status else out

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


def laid(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_start_lays_the_tree_and_starters(
    steps: Callable[..., str], made_up: MadeUpBook, folder: Path, golden: Golden
) -> None:
    golden("start", steps("start", "2", "--into", str(folder)))
    files = set(made_up.load().tree(2).files)
    assert laid(folder) == files | {"README.md", "AGENTS.md", ".handbook.json"}
    assert (folder / "minimal_engine.py").read_bytes() == (
        made_up.root / "steps/00-minimal-engine/files/minimal_engine.py"
    ).read_bytes()
    golden("start_core", (folder / "minisgl/core.py").read_text())
    golden("start_ops", (folder / "minisgl/ops.py").read_text())
    golden("start_readme", (folder / "README.md").read_text())
    golden("start_agents", (folder / "AGENTS.md").read_text())
    manifest = json.loads((folder / ".handbook.json").read_text())
    assert manifest["chapter"] == 2
    assert set(manifest["laid"]) == files | {"README.md", "AGENTS.md"}


def test_the_first_chapter_can_be_started(steps: Callable[..., str], folder: Path) -> None:
    steps("start", "0", "--into", str(folder))
    text = (folder / "minimal_engine.py").read_text()
    assert "chapter 00, minimal_engine.py: write generate" in text


def test_start_again_keeps_what_was_changed(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    steps("start", "2", "--into", str(folder))
    (folder / "minisgl/core.py").write_text(MINE)
    (folder / "minimal_engine.py").write_text("# mine\n")
    (folder / "minisgl/ops.py").unlink()
    golden("start_again", steps("start", "2", "--into", str(folder)))
    assert (folder / "minisgl/core.py").read_text() == MINE
    assert (folder / "minimal_engine.py").read_text() == "# mine\n"
    assert (folder / "minisgl/ops.py").is_file()
    steps("start", "2", "--into", str(folder))
    assert (folder / "minisgl/core.py").read_text() == MINE


def test_the_next_chapter_goes_on_from_the_readers_files(
    steps: Callable[..., str], folder: Path
) -> None:
    steps("start", "1", "--into", str(folder))
    mine = (folder / "minisgl/core.py").read_text() + "# mine\n"
    (folder / "minisgl/core.py").write_text(mine)
    said = steps("start", "2", "--into", str(folder))
    assert "minisgl/core.py: 1 body to write (kept as you have it)" in said
    assert (folder / "minisgl/core.py").read_text() == mine
    assert (folder / "minisgl/ops.py").is_file()


def test_an_untouched_starter_becomes_the_books_form(
    steps: Callable[..., str], folder: Path
) -> None:
    steps("start", "1", "--into", str(folder))
    steps("start", "2", "--into", str(folder))
    assert CORE in (folder / "minisgl/core.py").read_text()


@pytest.mark.parametrize(
    "name",
    ["foreign", "book", "package", "file", "below", "back", "manifest", "infinite", "link"],
)
def test_start_refuses_a_folder_that(
    name: str, steps: Callable[..., str], made_up: MadeUpBook, folder: Path, golden: Golden
) -> None:
    place = folder
    if name == "foreign":
        folder.mkdir()
        (folder / "precious").write_text("mine")
    elif name == "book":
        place = made_up.root
    elif name == "package":
        place = made_up.root / "minisgl/mine"
    elif name == "file":
        folder.write_text("mine")
    elif name == "below":
        folder.write_text("mine")
        place = folder / "new"
    elif name == "back":
        steps("start", "2", "--into", str(folder))
    elif name == "manifest":
        folder.mkdir()
        (folder / ".handbook.json").write_text("[]")
    elif name == "infinite":
        folder.mkdir()
        (folder / ".handbook.json").write_text('{"chapter": Infinity, "laid": {}}')
    elif name == "link":
        steps("start", "1", "--into", str(folder))
        for path in (folder / "minisgl").iterdir():
            path.unlink()
        (folder / "minisgl").rmdir()
        (folder / "minisgl").symlink_to(made_up.root / "minisgl")
    before = made_up.contents()
    golden(f"start_refuses_{name}", steps("start", "1", "--into", str(place), status=2))
    assert made_up.contents() == before


def test_reset_puts_the_starter_back_and_keeps_a_copy(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    steps("start", "2", "--into", str(folder))
    file = folder / "minisgl/core.py"
    starter_text = file.read_text()
    said = [steps("reset", str(file))]
    for text in (MINE, MINE + "# more\n"):
        file.write_text(text)
        said.append(steps("reset", str(file)))
        assert file.read_text() == starter_text
    file.unlink()
    said.append(steps("reset", "minisgl/core.py", "--mine", str(folder)))
    golden("reset", "".join(said))
    assert (folder / "minisgl/core.py.bak-1").read_text() == MINE
    assert (folder / "minisgl/core.py.bak-2").read_text() == MINE + "# more\n"
    assert file.read_text() == starter_text


def test_reset_brings_back_an_earlier_chapters_file(
    steps: Callable[..., str], made_up: MadeUpBook, folder: Path
) -> None:
    steps("start", "2", "--into", str(folder))
    (folder / "minimal_engine.py").write_text("# mine\n")
    steps("reset", str(folder / "minimal_engine.py"))
    want = made_up.load().tree(2).files["minimal_engine.py"].data
    assert (folder / "minimal_engine.py").read_bytes() == want


@pytest.mark.parametrize(
    ("name", "file"), [("unknown", "mine/minisgl/cor.py"), ("nowhere", "elsewhere/core.py")]
)
def test_reset_refuses(
    name: str, file: str, steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    steps("start", "2", "--into", str(folder))
    golden(f"reset_{name}", steps("reset", str(folder.parent / file), status=2))


def test_catch_up_brings_earlier_chapters_and_keeps_the_readers_own(
    steps: Callable[..., str], made_up: MadeUpBook, folder: Path, golden: Golden
) -> None:
    steps("start", "2", "--into", str(folder))
    (folder / "minisgl/core.py").write_text(MINE)
    (folder / "minimal_engine.py").write_text("# mine\n")
    golden("catch_up", steps("catch-up", "2", "--mine", str(folder)))
    want = made_up.load().tree(2).files["minimal_engine.py"].data
    assert (folder / "minimal_engine.py").read_bytes() == want
    assert (folder / "minimal_engine.py.bak-1").read_text() == "# mine\n"
    assert (folder / "minisgl/core.py").read_text() == MINE


def test_catch_up_with_a_later_chapter_lays_its_starters(
    steps: Callable[..., str], folder: Path, golden: Golden
) -> None:
    steps("start", "1", "--into", str(folder))
    (folder / "minisgl/core.py").write_text(MINE)
    golden("catch_up_later", steps("catch-up", "2", "--mine", str(folder)))
    assert CORE in (folder / "minisgl/core.py").read_text()
    assert (folder / "minisgl/core.py.bak-1").read_text() == MINE
    assert json.loads((folder / ".handbook.json").read_text())["chapter"] == 2
    golden("catch_up_back", steps("catch-up", "1", "--mine", str(folder), status=2))


def test_a_starter_has_contracts_and_no_solution(golden: Golden) -> None:
    found = starter.starter(8, "minisgl/pool.py", RICH)
    golden("starter", found.text)
    assert found.tasks == ("Pool.__init__", "Pool.take", "Pool.left", "Pool.walk")


def test_a_modified_files_starter_keeps_what_is_unchanged() -> None:
    changed = RICH.replace("return self.size", "return self.size - 1")
    found = starter.starter(8, "minisgl/pool.py", changed, RICH)
    assert found.tasks == ("Pool.left",)
    assert "return 2" in found.text and "return self._next()" in found.text
    assert "self.size - 1" not in found.text


def test_a_private_method_that_a_chapter_changes_is_a_task() -> None:
    """The reader has its earlier form, and nobody but the starter says that it changes."""
    changed = RICH.replace("return self._next()", "return 2 * self._next()")
    changed = changed.replace("return 1", "return 3")
    found = starter.starter(8, "minisgl/pool.py", changed, RICH)
    assert found.tasks == ("Pool.take", "Pool._next")
    assert "def _next(self)" in found.text and "return 3" not in found.text


@pytest.mark.parametrize("number", [c.number for c in Book.load(ROOT).chapters])
def test_nothing_that_the_chapter_before_has_and_this_one_keeps_is_left_out(number: int) -> None:
    book = Book.load(ROOT)
    before, files = book.before(number), book.reference(number).files
    for path, it in starter.starters(book, number).items():
        if path in before and path.endswith(".py"):
            kept = symbols(before[path].text()).keys() & symbols(files[path].text()).keys()
            assert kept <= symbols(it.text).keys(), path


def test_a_private_name_that_tests_use_stays() -> None:
    found = starter.starter(8, "minisgl/pool.py", RICH, asked_for=frozenset({"_helper"}))
    assert "_helper" in found.tasks and "return 2" not in found.text


@pytest.mark.parametrize("number", [c.number for c in Book.load(ROOT).chapters])
def test_the_starters_of_the_book(number: int) -> None:
    """They are Python, have every public name, and none of the bodies that are to be written."""
    book = Book.load(ROOT)
    found = starter.starters(book, number)
    assert sum(len(it.tasks) for it in found.values()) > 0
    for path, it in found.items():
        if not path.endswith(".py"):
            continue
        ast.parse(it.text)
        want, got = symbols(book.reference(number).files[path].text()), symbols(it.text)
        assert {n for n in want if all(map(is_public, n.split(".")))} <= set(got), path
        for task in it.tasks:
            body = ast.unparse(got[task].node).split('"""')[-1]
            assert body.count("raise NotImplementedError") == 1, task


@pytest.mark.parametrize("command", [["start", "2", "--into"], ["catch-up", "2", "--mine"]])
def test_a_file_in_a_folders_place_is_kept_and_named(
    command: list[str], steps: Callable[..., str], folder: Path
) -> None:
    steps("start", "1", "--into", str(folder))
    for path in (folder / "minisgl").iterdir():
        path.unlink()
    (folder / "minisgl").rmdir()
    (folder / "minisgl").write_text("mine")
    said = steps(*command, str(folder), status=2)
    assert said == (
        f"error: {folder / 'minisgl'} is a file, and a folder belongs there; move it away.\n"
    )
    assert (folder / "minisgl").read_text() == "mine"


def test_a_record_that_is_made_to_break_its_reader(steps: Callable[..., str], folder: Path) -> None:
    steps("start", "1", "--into", str(folder))
    deep = "[" * 100_000
    (folder / ".handbook-passed.json").write_text(deep)
    steps("status", "--mine", str(folder))
    (folder / ".handbook-hints.json").write_text(deep)
    with pytest.raises(UserError, match="hints then begin anew"):
        Seen.load(folder)
    (folder / ".handbook.json").write_text(deep)
    assert "can't be read; delete it" in steps("status", "--mine", str(folder), status=2)
