"""`diff`: by symbol, against the reference and against upstream, with its reasons and its page."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up_upstream import MadeUpCheckout
from runnable_book import CORE, RunnableBook

from steplib import catalogue, differences, starter, workfolder
from steplib.catalogue import Catalogue
from steplib.cli import main
from steplib.diff.compare import compare
from steplib.diff.hunks import hunks
from steplib.diff.outline import outline
from steplib.differences import Difference, Listing
from steplib.upstream import clone
from steplib.upstream.checkout import Checkout

Golden = Callable[[str, str], None]
MINE = '''\
from minimal_engine import logits

WIDTH = 16


class Loop:
    """My own words for it."""

    def __init__(self, prompt, start=0):
        # a comment of mine
        self.ids = list(
            prompt
        )
        self.steps = 0

    def step(self):
        row = logits(self.ids)
        best, second = sorted(range(WIDTH), key=lambda i: -row[i])[:2]
        self.ids.append(best)
        self.steps = self.steps + 1
        return (best, row[best]), (second, row[second])

    def _again(self):
        return self.step()


def helper(count: int = 3) -> int:
    return count
'''
UPSTREAM = """\
from .engine import logits


class Loop:
    def __init__(self, prompt): self.ids, self.steps = list(prompt), 0

    def step(self, count):
        self.ids.append(count)

    def later(self): ...


def gone(): ...
"""
BASE = '''\
class Pool(list):
    """Numbers."""

    size: int = 3

    def take(self, count: int = 1) -> int:
        """Take some."""
        def inner():
            """Say."""
            return count

        return inner()
'''
ENTRIES = (
    Difference(f"{CORE}::Loop.__init__", "design", "A loop may start later.", "README.md", True),
    Difference(f"{CORE}::helper", "cpu", "A CPU needs it.", "README.md"),
    Difference(f"{CORE}::Loop.step", "fault", "It takes the best.", "README.md"),
)


@pytest.fixture
def folder(book: RunnableBook, tmp_path: Path) -> Path:
    """A working folder with the untouched starters of chapter 01."""
    place = tmp_path / "mine"
    laid = workfolder.to_start_in(place, book.root, 1)
    laid.lay(starter.contents(book.load(), 1))
    return place


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    return RunnableBook(tmp_path / "book")


@pytest.fixture
def diff(
    book: RunnableBook, folder: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run `diff 01` on the folder; what it says."""

    def run(*words: str, status: int = 0) -> str:
        command = ["diff", "01", "--mine", str(folder), *words]
        assert main(["--root", str(book.root), *command]) == status
        out, err = capsys.readouterr()
        return err if status else out

    return run


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpCheckout:
    """Upstream as it was made up, with differences that are listed."""
    monkeypatch.setattr(differences, "load", lambda: Listing(ENTRIES))
    return MadeUpCheckout(tmp_path / "upstream", {f"python/{CORE}": UPSTREAM})


def changes(mine: str, theirs: str) -> set[tuple[str, str]]:
    return {(change.kind, change.name) for change in compare(outline(mine), outline(theirs))}


def test_an_untouched_starter_is_listed_and_not_compared(
    diff: Callable[..., str], golden: Golden
) -> None:
    text = diff()
    golden("diff_untouched", text)
    assert "self.steps" not in text


def test_what_a_reader_wrote_is_compared_by_symbol(
    diff: Callable[..., str], folder: Path, golden: Golden
) -> None:
    (folder / CORE).write_text(MINE)
    golden("diff_reference", diff())


def test_all_files_of_the_folder(diff: Callable[..., str], folder: Path, golden: Golden) -> None:
    (folder / "minimal_engine.py").write_text("def logits(ids):\n    return [0.0] * 16\n")
    (folder / "minisgl/more.py").write_text("")
    (folder / CORE).unlink()
    golden("diff_all", diff("--all"))


def test_a_file_that_is_no_python_is_named_and_the_others_go_on(
    diff: Callable[..., str], folder: Path, golden: Golden
) -> None:
    (folder / "minimal_engine.py").write_text("\ndef logits(ids:\n")
    golden("diff_syntax", diff("--all"))


def test_the_same_file_and_the_same_code(
    diff: Callable[..., str], book: RunnableBook, folder: Path, golden: Golden
) -> None:
    (folder / CORE).write_text(book.read(CORE))
    golden("diff_same", diff())
    (folder / CORE).write_text(book.read(CORE).replace("self.steps = 0", "self.steps = (0)  # x"))
    golden("diff_same_code", diff())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_folder", ("--mine", "")),
        ("no_upstream", ("--against", "upstream", "--upstream", "nowhere")),
        ("not_against", ("--upstream", "nowhere")),
    ],
)
def test_wrong_use(
    name: str, words: tuple[str, ...], diff: Callable[..., str], golden: Golden
) -> None:
    golden(f"diff_{name}", diff(*words, status=2))


@pytest.mark.parametrize(
    "same",
    [
        BASE.replace("count: int = 1", "count: int=1"),
        BASE.replace('"""Numbers."""', '"""Other words."""'),
        BASE.replace('            """Say."""\n', "            # a comment\n"),
        BASE.replace("return inner()", "return (\n            inner()\n        )"),
        BASE.replace('        """Take some."""\n', ""),
        "'''The module.'''\n" + BASE,
    ],
)
def test_format_comments_and_docstrings_are_no_difference(same: str) -> None:
    assert changes(same, BASE) == set()


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ("count: int = 1", "count: int = 2", ("signature", "Pool.take")),
        ("count: int = 1", "count: str = 1", ("signature", "Pool.take")),
        ("    def take", "    @cached\n    def take", ("signature", "Pool.take")),
        ("    def take", "    async def take", ("signature", "Pool.take")),
        ("Pool(list)", "Pool(dict)", ("signature", "Pool")),
        ("size: int", "size: float", ("signature", "Pool.size")),
        ("= 3", "= 4", ("body", "Pool.size")),
        ("return inner()", "return inner() + 1", ("body", "Pool.take")),
        ("class Pool", "import x\n\nclass Pool", ("body", "imports")),
        ("class Pool", "print(1)\n\nclass Pool", ("body", "module level")),
        ("class Pool", "if X:\n    print(1)\n\nclass Pool", ("body", "module level")),
        ("    size: int = 3\n", "", ("missing", "Pool.size")),
        ("    size", "    more: int = 3\n    size", ("extra", "Pool.more")),
        ("    size", "    print(1)\n    size", ("body", "Pool")),
    ],
)
def test_a_change_is_of_its_kind(old: str, new: str, want: tuple[str, str]) -> None:
    assert BASE.count(old) == 1
    assert changes(BASE.replace(old, new), BASE) == {want}


def test_a_class_that_is_missing_counts_once() -> None:
    assert changes("", BASE) == {("missing", "Pool")}
    assert changes(BASE, "") == {("extra", "Pool")}


def test_lines_carry_the_numbers_of_both_files() -> None:
    (hunk,) = hunks("a\nb\nc", "a\nx\ny\nc", (10, 20))
    found = [(row.mark, row.text, row.ours, row.theirs) for row in hunk]
    assert found == [
        (" ", "a", 10, 20),
        ("-", "b", 11, None),
        ("+", "x", None, 21),
        ("+", "y", None, 22),
        (" ", "c", 12, 23),
    ]


def test_against_a_checkout_each_listed_difference_has_its_reason(
    diff: Callable[..., str], folder: Path, checkout: MadeUpCheckout, golden: Golden
) -> None:
    (folder / CORE).write_text(MINE)
    text = diff("--against", "upstream", "--upstream", str(checkout.root))
    commit = checkout.git("rev-parse", "HEAD")[:12]
    golden("diff_upstream", text.replace(commit, "COMMIT"))


def test_a_later_chapter_may_bring_what_is_missing(
    book: RunnableBook, diff: Callable[..., str], checkout: MadeUpCheckout
) -> None:
    book.write(
        "steps/02-op-layer/step.toml", f'number = 2\nslug = "op-layer"\nmodifies = ["{CORE}"]\n'
    )
    book.write(f"steps/01-core-data-structures/files/{CORE}", book.read(CORE))
    book.append(CORE, "\n\ndef gone():\n    return 1\n")
    text = diff("--against", "upstream", "--upstream", str(checkout.root))
    assert "chapter 02 brings it" in text and "gone" in text


def test_without_the_network_the_catalogue_is_enough(
    diff: Callable[..., str],
    checkout: MadeUpCheckout,
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    (folder / CORE).write_text(MINE)
    known = Checkout.at(checkout.root).catalogue()
    pinned = Catalogue("nobody/nothing", "0" * 40, known.files)
    monkeypatch.setattr(catalogue, "load", lambda: pinned)
    monkeypatch.setattr(clone, "HOST", f"{tmp_path}/")
    golden("diff_catalogue", diff("--against", "upstream"))
    assert not list((tmp_path / "book/.cache/steps/upstream").iterdir())


def test_the_pinned_commit_is_fetched_once(
    checkout: MadeUpCheckout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clone, "HOST", f"file://{tmp_path}/")
    commit = checkout.git("rev-parse", "HEAD").strip()
    wanted = Catalogue("upstream", commit, {})
    found = clone.pinned(wanted, tmp_path / "root")
    assert isinstance(found, Checkout)
    assert found.commit == commit and found.sources == {f"python/{CORE}": UPSTREAM}
    monkeypatch.setattr(clone, "HOST", "file:///nowhere/")
    assert clone.pinned(wanted, tmp_path / "root") == found


def test_a_network_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 5\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(clone, "LIMIT", 0.1)
    said = clone.pinned(Catalogue("some/where", "0" * 40, {}), tmp_path / "root")
    assert said == "some/where could not be fetched: the network did not answer within 0.1 s."


class _Page(HTMLParser):
    """Ids, links, and what is asked of elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name == "src":
                self.outside.append(value or "")


@pytest.mark.parametrize("against", ["reference", "upstream"])
def test_the_page_is_one_file_whose_contents_lead_to_each_symbol(
    against: str, diff: Callable[..., str], folder: Path, checkout: MadeUpCheckout, tmp_path: Path
) -> None:
    (folder / CORE).write_text(MINE.replace("a comment", "<script>alert(1)</script>"))
    target = tmp_path / "diff.html"
    upstream = ["--upstream", str(checkout.root)] if against == "upstream" else []
    assert str(target) in diff("--against", against, *upstream, "--html", str(target))
    text = target.read_text()
    page = _Page(text)
    assert page.outside == [] and "<script" not in text and "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert any(link.endswith("Loop.step") for link in page.links)
    assert "prefers-color-scheme: dark" in text
