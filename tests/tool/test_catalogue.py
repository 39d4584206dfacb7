"""Upstream's catalogue, the comparison with it, and the listing of differences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_up_book import MANIFESTS, MadeUpBook, shown

from steplib import catalogue, differences
from steplib.book import Book
from steplib.comparison import deviations
from steplib.differences import Difference, Listing, Pending
from steplib.errors import UserError
from steplib.interface import from_source, normal
from steplib.paths import ROOT

Golden = Callable[[str, str], None]

TABLE = "minisgl/scheduler/table.py"

# upstream: class TableManager: __init__(self, max_running_reqs: int, page_table: torch.Tensor)
# property available_size, allocate(self) -> int, free(self, slot: int) -> None
EQUAL = """\
class TableManager:
    def __init__(self, max_running_reqs, page_table): ...
    @property
    def available_size(self): ...
    def allocate(self): ...
    def free(self, slot): ...
"""

CHANGES = {
    "parameter_renamed": ("free(self, slot)", "free(self, row)"),
    "parameter_missing": ("(self, max_running_reqs, page_table)", "(self, max_running_reqs)"),
    "parameters_swapped": ("max_running_reqs, page_table", "page_table, max_running_reqs"),
    "default_added": ("free(self, slot)", "free(self, slot=0)"),
    "extra_without_default": ("free(self, slot)", "free(self, slot, why)"),
    "stars_added": ("free(self, slot)", "free(self, slot, *more)"),
    "property_lost": ("    @property\n", ""),
    "made_async": ("def allocate", "async def allocate"),
    "method_missing": ("    def allocate(self): ...\n", ""),
    "method_added": ("def allocate", "def more(self): ...\n    def allocate"),
    "field_added": ("class TableManager:\n", "class TableManager:\n    size: int = 3\n"),
    "class_missing": ("TableManager", "Tables"),
}


LOGGER = "minisgl/utils/logger.py"
NORM = "minisgl/layers/norm.py"
CONFIG = "minisgl/scheduler/config.py"
EXPORTS = "minisgl/scheduler/__init__.py"

# (file, what is as upstream has it, the same with one change)
MORE_CHANGES = {
    "keyword_missing": (
        LOGGER,
        "def init_logger(name, suffix='', *, strip_file=True, level=None, use_pid=None,"
        " use_tp_rank=None): ...\n",
        "def init_logger(name, suffix='', *, strip_file=True, use_pid=None,"
        " use_tp_rank=None): ...\n",
    ),
    "base_missing": (NORM, "class RMSNorm(BaseOP): ...\n", "class RMSNorm: ...\n"),
    "field_default": (
        CONFIG,
        "class SchedulerConfig(EngineConfig):\n    max_extend_tokens: int = 8192\n",
        "class SchedulerConfig(EngineConfig):\n    max_extend_tokens: int = 4096\n",
    ),
    "field_order": (
        CONFIG,
        "class SchedulerConfig(EngineConfig):\n    max_extend_tokens: int = 8192\n"
        "    cache_type: str = 'radix'\n",
        "class SchedulerConfig(EngineConfig):\n    cache_type: str = 'radix'\n"
        "    max_extend_tokens: int = 8192\n",
    ),
    "field_between": (
        CONFIG,
        "class SchedulerConfig(EngineConfig):\n    max_extend_tokens: int = 8192\n"
        "    cache_type: str = 'radix'\n",
        "class SchedulerConfig(EngineConfig):\n    max_extend_tokens: int = 8192\n"
        "    ours: int = 1\n    cache_type: str = 'radix'\n",
    ),
    "export_missing": (
        EXPORTS,
        "class Scheduler: ...\nclass SchedulerConfig: ...\n"
        "__all__ = ['Scheduler', 'SchedulerConfig']\n",
        "class Scheduler: ...\nclass SchedulerConfig: ...\n__all__ = ['Scheduler']\n",
    ),
}


@pytest.mark.parametrize("change", MORE_CHANGES)
def test_a_change_adds_a_difference(made_up: MadeUpBook, golden: Golden, change: str) -> None:
    path, equal, changed = MORE_CHANGES[change]
    before = set(deviations(_with_file(made_up, path, equal).tree(2)))
    after = set(deviations(_with_file(made_up, path, changed).tree(2)))
    new = sorted(f"{found.symbol}: {found.message}" for found in after - before)
    golden(f"catalogue_{change}", "\n".join(new))


def _with_file(book: MadeUpBook, path: str, source: str) -> Book:
    book.manifest(2, MANIFESTS[2].replace("minisgl/ops.py", path))
    book.write(path, source)
    return book.load()


def _with_table(book: MadeUpBook, source: str) -> Book:
    return _with_file(book, TABLE, source)


def _table_problems(book: Book, listing: Listing) -> str:
    found = differences.problems(book, 2, listing)
    return shown([p for p in found if p.where.startswith(TABLE)])


def test_an_equal_interface_has_no_deviations(made_up: MadeUpBook) -> None:
    assert _table_problems(_with_table(made_up, EQUAL), Listing()) == ""


def test_annotations_and_extra_parameters_with_defaults_are_free(made_up: MadeUpBook) -> None:
    source = EQUAL.replace("free(self, slot)", "free(self, slot: int, *, why: str | None = None)")
    assert _table_problems(_with_table(made_up, source), Listing()) == ""


@pytest.mark.parametrize("change", CHANGES)
def test_an_unlisted_difference_is_named(made_up: MadeUpBook, golden: Golden, change: str) -> None:
    old, new = CHANGES[change]
    assert old in EQUAL
    text = _table_problems(_with_table(made_up, EQUAL.replace(old, new)), Listing())
    golden(f"catalogue_{change}", text)


def test_a_listed_difference_is_accepted(made_up: MadeUpBook) -> None:
    book = _with_table(made_up, EQUAL.replace("(self, slot)", "(self, row)"))
    entry = Difference(f"{TABLE}::TableManager.free", "design", "Rows are rows.", "README.md")
    assert _table_problems(book, Listing(difference=(entry,))) == ""


def test_an_inherited_method_counts(made_up: MadeUpBook) -> None:
    source = EQUAL.replace("TableManager", "_Base")
    source += "class TableManager(_Base):\n    pass\n"
    assert _table_problems(_with_table(made_up, source), Listing()) == ""


def test_what_is_missing_counts_only_in_the_last_tree(made_up: MadeUpBook) -> None:
    book = made_up.load()
    missing = "minisgl/core.py::Req"
    wheres = [{p.where for p in differences.problems(book, n, Listing())} for n in (1, 2)]
    assert missing not in wheres[0]
    assert missing in wheres[1]


@pytest.mark.parametrize(("chapter", "is_accepted"), [(18, True), (2, False), (1, False)])
def test_a_later_chapter_may_be_named_for_what_is_missing(
    made_up: MadeUpBook, chapter: int, is_accepted: bool
) -> None:
    listing = Listing(pending=(Pending(chapter, ("minisgl/core.py::Req",)),))
    found = {p.where for p in differences.problems(made_up.load(), 2, listing)}
    assert ("minisgl/core.py::Req" not in found) == is_accepted


def test_a_file_of_ours_must_be_listed(made_up: MadeUpBook) -> None:
    book = made_up.load()
    assert "minisgl/ops.py" in {p.where for p in differences.problems(book, 2, Listing())}
    assert "minisgl/__init__.py" not in {d.symbol for d in deviations(book.tree(2))}


def test_entries_for_nothing_are_named(made_up: MadeUpBook, golden: Golden) -> None:
    def entry(symbol: str, behavior: bool) -> Difference:
        return Difference(symbol, "design", "Because.", "README.md", behavior)

    listing = Listing(
        difference=(
            entry("minisgl/ops.py", False),
            entry("minisgl/core.py::gone", False),
            entry("minisgl/core.py::first", True),
            entry("minisgl/core.py::gone", True),
        ),
        pending=(Pending(18, ("minisgl/core.py::Req", "minisgl/core.py::first")),),
    )
    golden("catalogue_stale", shown(list(differences.stale_entries(made_up.load(), listing))))


def test_defaults_are_compared_by_meaning() -> None:
    assert normal('""') == normal("''")
    assert normal("field(default=None, init=False)") == normal("field(init=False, default=None)")
    assert normal("None") != normal(None)


def test_names_under_if_and_try_are_read() -> None:
    source = (
        "if A:\n    B = 1\nelse:\n    def f(): ...\ntry:\n    import x\nexcept E:\n    x = None\n"
    )
    assert {"B", "f", "x"} <= from_source(source).names


def test_a_permanent_link_has_commit_and_lines() -> None:
    facts = catalogue.load()
    base = f"https://github.com/sgl-project/mini-sglang/blob/{facts.commit}/python/minisgl/core.py"
    assert facts.permalink("minisgl/core.py") == base
    assert facts.permalink("minisgl/core.py::Req.extend_len") == f"{base}#L49-L50"
    assert facts.permalink("minisgl/core.py::Req.table_idx") == f"{base}#L29-L68"
    assert facts.permalink("minisgl/core.py::_GLOBAL_CTX") == f"{base}#L125"


@pytest.mark.parametrize(
    "symbol", ["minisgl/cor.py", "minisgl/core.py::Reqq", "minisgl/core.py::Req.x"]
)
def test_a_link_to_nothing_is_an_error(symbol: str) -> None:
    with pytest.raises(UserError, match="Upstream"):
        catalogue.load().permalink(symbol)


def test_every_upstream_file_has_a_chapter_or_a_reason() -> None:
    listed = catalogue.upstream_files()
    assert sorted(f.path for f in listed) == sorted(
        facts["path"] for facts in catalogue.load().files.values()
    )
    assert len(listed) == 111
    assert all((file.chapter is None) == bool(file.left_out) for file in listed)


def test_the_book_puts_each_file_where_the_table_says() -> None:
    book = Book.load(ROOT)
    planned = {
        file.path.removeprefix("python/"): file.chapter for file in catalogue.upstream_files()
    }
    wrong = {
        path: (book.owner(path), planned[path])
        for path in book.touches
        if path in planned and planned[path] != book.owner(path)
    }
    assert wrong == {}


@pytest.mark.parametrize("number", [chapter.number for chapter in Book.load(ROOT).chapters])
def test_every_difference_of_the_book_is_listed(number: int) -> None:
    book = Book.load(ROOT)
    assert shown(differences.problems(book, number, differences.load())) == ""


def test_every_listed_difference_is_there_and_shown() -> None:
    listing = differences.load()
    assert shown(list(differences.stale_entries(Book.load(ROOT), listing))) == ""
    assert [entry.shown_by for entry in listing.difference if not _exists(entry.shown_by)] == []


def _exists(place: str) -> bool:
    path, _, name = place.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
    return bool(text) and (not name or f"def {name}(" in text)
