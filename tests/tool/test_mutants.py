"""Mutants of small sources, and a mutation run on a small book."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runnable_book import CORE, TEST, Reference, RunnableBook

from steplib.book import Book
from steplib.cli import main
from steplib.errors import UserError
from steplib.mutation import equivalents, report, scope
from steplib.mutation.mutant import Mutant, mutants
from steplib.mutation.report import ChapterRun
from steplib.mutation.run import Mutation
from steplib.mutation.source import Source
from steplib.paths import ROOT

Golden = Callable[[str, str], None]

KINDS = {
    "operator": [
        ("x = a + b\n", "x = a - b"),
        ("x = a * b\n", "x = a // b"),
        ("x = (a) % (b)\n", "x = (a) * (b)"),
        ("x = a and b\n", "x = a or b"),
        ("x = not a\n", "x = a"),
        ("x = -a\n", "x = a"),
        ("x = a << b\n", "x = a >> b"),
        ("x = a | b\n", "x = a & b"),
    ],
    "comparison": [
        ("x = a < b\n", "x = a <= b"),
        ("x = a >= b\n", "x = a > b"),
        ("x = a == b\n", "x = a != b"),
        ("x = a is not b\n", "x = a is b"),
        ("x = a not in b\n", "x = a in b"),
    ],
    "off by one": [
        ("x = a[2:]\n", "x = a[3:]"),
        ("x = a[:-1]\n", "x = a[:-2]"),
        ("x = range(3)\n", "x = range(4)"),
        ("x = a + 1\n", "x = a + 0"),
    ],
    "wrong constant": [
        ("x = 7\n", "x = 8"),
        ("x = -1\n", "x = -2"),
        ("x = True\n", "x = False"),
        ("x = 0.5\n", "x = 1.0"),
        ("x = a == 'b'\n", "x = a == 'b?'"),
        ("x = a in ('b',)\n", "x = a in ('b?',)"),
    ],
    "dropped statement": [
        ("f(a)\n", "pass"),
        ("a.b = c\n", "pass"),
        ("a[0] = c\n", "pass"),
        ("a, b.c = d\n", "pass"),
        ("def f(a):\n    return a\n", "return None"),
    ],
    "swapped arguments": [("x = f(a, b)\n", "x = f(b, a)")],
    "negated condition": [
        ("if a:\n    b\n", "if not (a):"),
        ("x = [a for a in b if a.c]\n", "x = [a for a in b if not (a.c)]"),
        ("x = a if b else c\n", "x = a if not (b) else c"),
    ],
}


def of(text: str) -> list[Mutant]:
    return mutants(Source("f.py", text))


@pytest.mark.parametrize(
    ("kind", "text", "after"), [(k, *case) for k, cases in KINDS.items() for case in cases]
)
def test_each_kind_makes_its_change(kind: str, text: str, after: str) -> None:
    found = [" ".join(m.after.split()) for m in of(text) if m.kind == kind]
    assert after in found


@pytest.mark.parametrize(
    "text",
    [
        '"""A module of 1 + 1."""\n',
        'def f(a: "x | 1" = None) -> "y | 2":\n    """Docs."""\n',
        "__all__ = ['a'] + ['b']\n",
        "if TYPE_CHECKING:\n    x = 1 + 1\n",
        'logger.info("%d of %d", a + 1, b)\n',
        "def f():\n    raise ValueError('a' + 'b', f'{c + 1}')\n",
        "def f():\n    assert a, 'not a' + str(1)\n",
        "class A:\n    def __repr__(self):\n        return 'A' + str(1)\n",
        "x = f'{a + 1}'\n",
        "class A:\n    @abstractmethod\n    def f(self, b=1): ...\n",
        "@dataclass(frozen=True)\nclass A:\n    pass\n",
        "x = f(*a, b)\n",
        "x = max(a, b)\n",
    ],
)
def test_what_only_words_and_types_depend_on_is_left_alone(text: str) -> None:
    assert [m.after for m in of(text)] == []


LONG = '''\
"""Words: äöü."""


def f(a, b):
    x = (
        a  # one + two
        + b
    )
    g(
        x,
        "ä", b,
    )
    if a == 1:
        b[0] = 1
    if a == 1:
        b[0] = 1
    return x
'''


def test_every_mutant_keeps_the_lines_and_is_python() -> None:
    found = of(LONG)
    assert len(found) > 10
    assert all(m.text.count("\n") == LONG.count("\n") and m.is_sound() for m in found)
    assert all(len(m.text.split("\n")[-2]) > 0 for m in found)


def test_names_and_ids_are_unique_and_a_name_outlives_other_edits() -> None:
    found = of(LONG)
    assert len({m.id for m in found}) == len({m.name for m in found}) == len(found)
    moved = of("import os\n\n\n" + LONG)
    assert [m.name for m in moved] == [m.name for m in found]
    assert not {m.id for m in moved} & {m.id for m in found}


def test_a_sample_depends_on_the_seed_alone_and_hardly_on_edits() -> None:
    found = of(LONG)
    drawn = scope.sample(found, 6, seed=0)
    assert drawn == scope.sample(found, 6, seed=0) != scope.sample(found, 6, seed=1)
    assert drawn == sorted(drawn, key=found.index)
    moved = scope.sample(of("import os\n" + LONG), 6, seed=0)
    assert [m.name for m in moved] == [m.name for m in drawn]
    assert scope.sample(found, None, seed=0) == found


IDLE = "\n\ndef limit(x):\n    if x > 3:\n        return 3\n    return x\n"
USED = """

def probe_limit(seed):
    from minisgl.core import limit

    return [limit(2), limit(4)]


def judge_limit(seed, got):
    equal(got, [2, 3], "limit")
"""


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    made = RunnableBook(tmp_path / "book")
    made.write(CORE, made.read(CORE) + IDLE)
    made.write(TEST, made.read(TEST) + USED)
    made.refresh()
    return made


def mutated(
    book: RunnableBook, tried: list[int], size: int | None = None, stop_after: int = 0
) -> ChapterRun:
    """tried: gets a number for each mutant that was really tried."""

    def say(run: ChapterRun) -> None:
        tried.append(len(run.verdicts))
        if len(tried) == stop_after:
            raise RuntimeError("stopped")

    loaded = Book.load(book.root)
    whole = Mutation(loaded, Reference(), say, preload=("json",))
    return whole.chapter(loaded.chapter(1), size, seed=0)


def test_the_check_catches_a_mutant_and_misses_another(book: RunnableBook) -> None:
    run = mutated(book, [])
    words = {mutant.after: run.word(mutant) for mutant in run.mutants}
    assert words["return None"] in ("caught", "timed out")
    assert [m.after for m in run.survivors if m.symbol == "limit"] == ["if x >= 3:"]
    by = {run.verdicts[m.id].by for m in run.mutants if m.symbol == "limit"}
    assert by == {"test_ch01_core.py::limit", ""}
    assert run.share == 1 - len(run.survivors) / len(run.mutants)


def test_an_endless_loop_is_timed_out(book: RunnableBook) -> None:
    book.edit(CORE, "    if x > 3:\n", "    while x > 9:\n        x -= 9\n    if x > 3:\n")
    run = mutated(book, [])
    loops = [m for m in run.mutants if run.word(m) == "timed out"]
    assert any(m.after in ("while not (x > 9):", "x += 9", "pass") for m in loops)


def test_an_interrupted_run_goes_on_where_it_was(book: RunnableBook) -> None:
    with pytest.raises(RuntimeError, match="stopped"):
        mutated(book, [], size=8, stop_after=3)
    tried: list[int] = []
    run = mutated(book, tried, size=8)
    assert len(tried) == len(run.mutants) - 3
    again: list[int] = []
    assert mutated(book, again, size=8).verdicts == run.verdicts
    assert again == []


def test_another_test_makes_a_new_run(book: RunnableBook) -> None:
    before = mutated(book, [], size=4)
    book.edit(TEST, "[limit(2), limit(4)]", "[limit(2), limit(4)] ")
    tried: list[int] = []
    assert len(mutated(book, tried, size=4).mutants) == len(before.mutants) == len(tried)


def test_a_check_that_fails_by_itself_says_nothing_about_mutants(
    book: RunnableBook, golden: Golden
) -> None:
    book.edit(TEST, "equal(got, [2, 3]", "equal(got, [2, 4]")
    with pytest.raises(UserError) as error:
        mutated(book, [], size=4)
    golden("mutants_failing_test", str(error.value))


def test_the_report(book: RunnableBook, golden: Golden) -> None:
    run = mutated(book, [])
    run.reasons = {run.mutants[0].id: "Nobody sees it."}
    golden("mutants_report", "\n".join(report.lines(run)))
    data = json.loads(json.dumps(report.as_data([run], 0)))["chapters"][0]
    assert sum(data["counts"].values()) == data["tried"] == len(data["mutants"])
    assert data["mutants"][0]["reason"] == "Nobody sees it."


def test_wrong_use(book: RunnableBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(book.root), "mutate", "01", "--sample", "0"]) == 2
    assert "--sample 0: it must be 1 or more." in capsys.readouterr().err


def test_every_listed_equivalent_is_a_mutant_that_is_still_there() -> None:
    book, entries = Book.load(ROOT), equivalents.load()
    for number in {entry.chapter for entry in entries}:
        every = scope.mutants_of(book, number)
        assert equivalents.outdated(entries, number, every) == []
        drawn = scope.sample(every, 100, seed=0)
        assert len(equivalents.reasons(entries, number, drawn)) <= 0.05 * len(drawn)


def test_every_mutant_of_the_book_is_python_on_the_same_lines() -> None:
    book = Book.load(ROOT)
    for number in (0, 9):
        for mutant in scope.sample(scope.mutants_of(book, number), 60, seed=1):
            assert mutant.is_sound(), mutant.id
            assert mutant.text.count("\n") == mutant.source.text.count("\n")


def test_symbols_of_later_chapters_are_left_out() -> None:
    found = [{m.symbol for m in scope.mutants_of(Book.load(ROOT), number)} for number in (2, 3)]
    assert ["silu_and_mul" in symbols for symbols in found] == [True, False]
    assert ["gelu_and_mul" in symbols for symbols in found] == [False, True]


def test_a_changed_line_brings_its_whole_function_and_no_other() -> None:
    text = LONG + "\n\ndef h():\n    return 1\n"
    inside = scope.whole_functions(Source("f.py", text), {9})
    assert {m.symbol for m in of(text) if m.lines[0] in inside} == {"f"}
    assert {m.lines[0] for m in of(text) if m.symbol == "f"} <= inside
