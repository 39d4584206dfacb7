"""Another commit of upstream: read to the letter as the catalogue is, and what it touches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_up_book import MadeUpBook
from made_up_upstream import MadeUpCheckout, sources

from steplib import catalogue, differences, interface, markers
from steplib.book import Book
from steplib.cli import main
from steplib.differences import Difference, Listing
from steplib.paths import ROOT
from steplib.upstream.checkout import Checkout
from steplib.upstream.facts import facts
from steplib.upstream.refresh import as_text, refreshed

Golden = Callable[[str, str], None]
CORE, TABLE = "python/minisgl/core.py", "python/minisgl/table.py"
FILES = {
    CORE: '''\
"""What all parts share."""

from dataclasses import dataclass

__all__ = ["Req", "LIMIT"]
LIMIT: int = 8


@dataclass
class Req:
    uid: int
    tokens: list[int] | None = None

    @property
    def length(self) -> int:
        return 1

    async def answer(self, wait: float = 0.5) -> str: ...


class Gone(Req, dict[str, int]):
    def one(self): ...


def make(uid, *, limit=LIMIT) -> Req:
    return Req(uid)
''',
    TABLE: "def rows(count: int) -> int:\n    return count\n",
    "python/minisgl/empty/__init__.py": "",
    "python/minisgl/kernel/csrc/fast.cu": "// one\n// two\n",
    "docs/conf.py": "ignored = 1\n",
    "tests/test_core.py": "def test(): ...\n",
}
PAGE = """\
# A page

<!-- begin: upstream python/minisgl/core.py::Req python/minisgl/core.py::make -->

box

<!-- end -->

<!-- begin: differences 01 -->

!!! difference "`minisgl/core.py::Req.length` · fault mended"

    Why.

<!-- end -->
"""


@pytest.fixture
def checkout(tmp_path: Path) -> MadeUpCheckout:
    return MadeUpCheckout(tmp_path / "upstream", FILES)


@pytest.fixture
def steps(
    checkout: MadeUpCheckout,
    made_up: MadeUpBook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[..., str]]:
    """Run `upstream refresh` for a book whose catalogue is the checkout's first commit."""
    commit = checkout.git("rev-parse", "HEAD").strip()
    start = {"repository": "sgl-project/mini-sglang", "commit": "0" * 40, "files": []}
    pinned, _ = refreshed(start, Checkout.at(checkout.root))
    monkeypatch.setattr(catalogue, "FILE", tmp_path / "interface.json")
    catalogue.FILE.write_text(as_text(pinned))
    entry = Difference("minisgl/core.py::Gone.one", "design", "Why.", "README.md")
    monkeypatch.setattr(differences, "load", lambda: Listing((entry,)))
    monkeypatch.setattr(catalogue, "upstream_files", lambda: ())
    made_up.write("docs/chapters/01-core-data-structures.md", PAGE)
    made_up.write("docs/other.md", "# Nothing of upstream\n")
    task = 'upstream = "python/minisgl/table.py::rows"\n'
    made_up.write("steps/01-core-data-structures/exercises/rows/exercise.toml", task)
    catalogue.load.cache_clear()

    def run(*words: str, status: int = 0) -> str:
        command = ["upstream", "refresh", str(checkout.root), *words]
        assert main(["--root", str(made_up.root), *command]) == status
        out, err = capsys.readouterr()
        head = checkout.git("rev-parse", "HEAD").strip()
        text = err if status else out
        return text.replace(commit[:12], "PINNED").replace(head[:12], "NEW")

    yield run
    catalogue.load.cache_clear()


def test_the_catalogue_is_read_to_the_letter(tmp_path: Path) -> None:
    """A checkout with every symbol of the pinned commit on its lines gives the same file."""
    pinned = catalogue.raw()
    made = MadeUpCheckout(tmp_path / "upstream", sources(pinned))
    found, notes = refreshed(pinned, Checkout.at(made.root))
    assert notes == []
    found["commit"] = pinned["commit"]
    assert as_text(found) == catalogue.FILE.read_text(encoding="utf-8")


def test_an_entry_of_each_kind(golden: Golden) -> None:
    golden("upstream_facts", json.dumps(facts(CORE, FILES[CORE]), indent=1))


def test_entries_say_what_the_source_says() -> None:
    """For every module of the book's own: the entry holds what the comparison reads off it."""
    files = Book.load(ROOT).reference(Book.load(ROOT).last.number).files
    for path, file in files.items():
        if path.endswith(".py"):
            want = interface.from_source(file.text())
            got = interface.from_facts(facts(path, file.text()))
            assert {name: want.classes[name] for name in got.classes} == got.classes, path
            assert got.functions.items() <= want.functions.items(), path
            assert got.constants <= want.constants and got.exports == want.exports, path
    assert len(files) > 50


def test_the_pinned_commit_moves_nothing(steps: Callable[..., str], golden: Golden) -> None:
    before = catalogue.FILE.read_bytes()
    golden("upstream_same", steps("--write"))
    assert catalogue.FILE.read_bytes() == before


def test_what_moved_and_what_it_touches(
    steps: Callable[..., str], checkout: MadeUpCheckout, golden: Golden
) -> None:
    checkout.edit(CORE, "class Gone(Req, dict[str, int]):\n    def one(self): ...\n\n\n", "")
    checkout.edit(CORE, "wait: float = 0.5", "wait: float = 1.5, *more: int")
    checkout.edit(CORE, '["Req", "LIMIT"]', '["Req"]')
    checkout.edit(CORE, "    uid: int\n", "    uid: int\n    rank: int = 0\n")
    checkout.edit(TABLE, "def rows", "# a comment\ndef rows")
    checkout.edit("python/minisgl/kernel/csrc/fast.cu", "// two\n", "// two\n// three\n")
    checkout.write("python/minisgl/kernel/csrc/more.cu", "// one\n")
    checkout.write("python/minisgl/new.py", "class New:\n    def one(self): ...\n")
    (checkout.root / "tests/test_core.py").unlink()
    commit = checkout.commit()
    before = catalogue.FILE.read_bytes()
    golden("upstream_moved", steps())
    assert catalogue.FILE.read_bytes() == before
    golden("upstream_written", steps("--write").partition("the catalogue is")[2])
    assert catalogue.raw()["commit"] == commit
    assert steps() == "the checkout stands at the pinned commit NEW; nothing moved\n" + (
        "note: python/minisgl/kernel/csrc/fast.cu has 3 lines, not 2; "
        "it is no Python, so its entry is kept as it was\n"
    )


def test_only_what_is_committed_is_read(
    steps: Callable[..., str], checkout: MadeUpCheckout, golden: Golden
) -> None:
    checkout.write(TABLE, "x = 1\n")
    golden("upstream_changed", steps(status=2))


def test_a_source_that_is_no_python_is_named(
    steps: Callable[..., str], checkout: MadeUpCheckout, golden: Golden
) -> None:
    checkout.write(TABLE, "def rows(:\n")
    checkout.commit()
    golden("upstream_syntax", steps(status=2))


def test_a_folder_that_is_no_checkout(
    made_up: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    (tmp_path / "copy/python/minisgl").mkdir(parents=True)
    for name in ("book", "copy"):
        command = ["upstream", "refresh", str(tmp_path / name)]
        assert main(["--root", str(made_up.root), *command]) == 2
    golden("upstream_no_checkout", capsys.readouterr().err)


def test_the_pages_of_the_book_can_be_read() -> None:
    """Refresh reads each page's blocks; a page of the book that names nothing would be a fault."""
    pages = sorted((ROOT / "docs/chapters").glob("*.md"))
    kinds = [{b.kind for b in markers.blocks(p.read_text(encoding="utf-8"))} for p in pages]
    assert all("upstream" in found for found in kinds)
