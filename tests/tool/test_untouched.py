"""Which lines a chapter adds, and how many of them must have run."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_book import CORE_OF_02, MadeUpBook

from steplib import untouched

OPS = '''\
"""A module."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minisgl.core import added


def double(
    x: int,
) -> int:
    """Twice x."""
    y = (
        x
        + x
    )
    return y


def missing() -> None: ...
'''


@pytest.fixture
def book(tmp_path: Path) -> MadeUpBook:
    made = MadeUpBook(tmp_path / "book")
    made.write("minisgl/ops.py", OPS)
    return made


def test_a_created_file_counts_whole_and_a_modified_one_by_its_new_lines(book: MadeUpBook) -> None:
    added = untouched.added_lines(book.load(), 2)
    assert set(added) == {"minisgl/core.py", "minisgl/ops.py"}
    new = [
        line for i, line in enumerate(CORE_OF_02.splitlines(), 1) if i in added["minisgl/core.py"]
    ]
    assert [line for line in new if line] == ["def added() -> int:", "    return 4"]
    assert 1 in added["minisgl/ops.py"]


def test_executable_lines_are_what_coverage_says(book: MadeUpBook) -> None:
    found = {t.path: t for t in untouched.touches(book.load(), 2, {})}
    ops = found["minisgl/ops.py"]
    assert ops.added == {3, 9, 13, 17, 20}
    assert ops.missed == ops.added


def test_any_line_of_a_statement_counts_for_it(book: MadeUpBook) -> None:
    executed = {"minisgl/ops.py": {3, 9, 14, 17, 20}, "minisgl/core.py": {13, 14}}
    assert all(not t.missed for t in untouched.touches(book.load(), 2, executed))
    result = untouched.check(book.load(), 2, executed)
    assert (result.verdict, result.summary) == ("passed", "100% of 7 added lines run")


def test_lines_of_other_chapters_do_not_help(book: MadeUpBook) -> None:
    result = untouched.check(book.load(), 2, {"minisgl/core.py": set(range(1, 12))})
    assert result.verdict == "failed"
    [finding] = result.findings
    assert finding.got == "0%; never run: minisgl/ops.py:3,9,13,17,20; minisgl/core.py:13-14"


def test_nine_of_ten_is_enough_and_less_is_not(book: MadeUpBook) -> None:
    body = "".join(f"    x = {i}\n" for i in range(8))
    book.write("minisgl/ops.py", f"def f() -> None:\n{body}")  # 9 lines, and 2 in core.py
    all_but_one = {"minisgl/ops.py": set(range(1, 9)), "minisgl/core.py": {13, 14}}
    assert untouched.check(book.load(), 2, all_but_one).is_passed
    all_but_two = {**all_but_one, "minisgl/core.py": {13}}
    assert not untouched.check(book.load(), 2, all_but_two).is_passed


def test_a_pragma_is_counted_and_hides_nothing(book: MadeUpBook) -> None:
    book.write("minisgl/ops.py", "def f() -> None:  # pragma: no cover\n    print()\n")
    result = untouched.check(book.load(), 2, {"minisgl/core.py": {13, 14}})
    assert result.summary == "50% of 4 added lines run (1 marked `pragma: no cover`; they count)"
