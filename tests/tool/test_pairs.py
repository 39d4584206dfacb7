"""Test pairs: how a file is read, and the verdict on each way in which a probe can go wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from runnable_book import TEST, RunnableBook, text_of

from steplib import pairs
from steplib.book import Book
from steplib.errors import UserError
from steplib.process import Launcher
from steplib.stage import staged

Golden = Callable[[str, str], None]

HEAD = "import os, time\nfrom pairs import close, equal, public_bug, truth\n"
PROBES = {
    "right": "    return 1\n",
    "wrong": "    return 2\n",
    "raises": "    return [][0]\n",
    "leaves": "    os._exit(0)\n",
    "leaves_with_7": "    os._exit(7)\n",
    "is_killed": "    os.kill(os.getpid(), 11)\n",
    "hangs": "    time.sleep(60)\n",
    "calls_exit": "    raise SystemExit(0)\n",
    "gives_no_plain_data": "    return {1, 2}\n",
    "gives_other_keys": "    return {1: 2}\n",
    "skips": "    import unittest\n    raise unittest.SkipTest('no GPU here')\n",
    "forks": "    os.fork()\n    return 1\n",
    "comes_after": "    return 1\n",
}


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    return RunnableBook(tmp_path / "book")


def pair(name: str, probe: str, judge: str = "    equal(got, 1, 'the answer')\n") -> str:
    return f"\n\ndef probe_{name}(seed):\n{probe}\n\ndef judge_{name}(seed, got):\n{judge}"


def run(book: RunnableBook, text: str, limit: float = 20) -> pairs.TestRun:
    file = book.write(TEST, text)
    with staged(Book.load(book.root).tree(1), book.root, [file]) as stage:
        return pairs.run(pairs.read(file), stage, Launcher(), limit=limit)


def verdicts(found: pairs.TestRun) -> dict[str, str]:
    return {result.name: result.verdict for result in found.results}


def test_each_probe_gets_its_own_verdict(book: RunnableBook, golden: Golden) -> None:
    found = run(book, HEAD + "".join(pair(*item) for item in PROBES.items()), limit=1.5)
    lines = [f"{r.name}: {r.verdict}: {r.detail}, {r.expected}, {r.got}" for r in found.results]
    golden("pairs_verdicts", "\n".join(lines))
    assert [r.name for r in found.results] == list(PROBES)
    assert found.verdict != "passed"


def test_a_child_that_leaves_after_its_last_answer_has_not_passed(book: RunnableBook) -> None:
    late = "    import threading\n    threading.Timer(0.3, os._exit, (0,)).start()\n    return 1\n"
    stay = "    import atexit\n    atexit.register(time.sleep, 5)\n    return 1\n"
    found = run(book, HEAD + pair("right", late) + pair("last", "    time.sleep(5)\n" + stay))
    assert found.verdict != "passed"
    assert verdicts(found)["right"] == "passed"
    leaving = "    import sys\n    sys.modules['x'] = Leaves('x')\n    return 1\n"
    leaves = (
        "\nimport types\n\n\nclass Leaves(types.ModuleType):\n"
        "    def __getattribute__(self, name):\n        os._exit(3)\n"
    )
    found = run(book, HEAD + leaves + pair("right", "    return 1\n") + pair("last", leaving))
    assert verdicts(found)["last"] != "passed"


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ("\n\ndef test_x():\n    assert False\n", "test_x would never run"),
        ("\n\nclass TestX:\n    pass\n", "TestX would never run"),
        (pair("right", "    return 2\n"), "probe_right is there twice"),
    ],
)
def test_what_would_never_run_is_named(book: RunnableBook, extra: str, word: str) -> None:
    file = book.write(TEST, HEAD + pair("right", "    return 1\n") + extra)
    with pytest.raises(UserError, match=word):
        pairs.read(file)


def test_a_forged_record_costs_the_whole_file(book: RunnableBook) -> None:
    forge = (
        "    for fd in range(3, 64):\n        try:\n"
        '            os.write(fd, b\'{"kind": "probe", "name": "wrong", "got": 1}\\n\')\n'
        "        except OSError:\n            pass\n    return 1\n"
    )
    text = (
        HEAD
        + pair("right", "    return 1\n")
        + pair("forges", forge)
        + pair("wrong", "    return 2\n")
    )
    assert set(verdicts(run(book, text)).values()) == {"forged"}


def test_a_file_that_cannot_be_imported_fails_every_pair(book: RunnableBook) -> None:
    text = HEAD + "import sys\n\nif 'pytest' not in sys.modules:\n    1 / 0\n"
    found = run(book, text + pair("right", "    return 1\n"))
    assert verdicts(found) == {"right": "crashed"}
    assert "ZeroDivisionError" in found.results[0].detail


@pytest.mark.parametrize(
    ("name", "judge", "says"),
    [
        ("nothing_compared", "    pass\n", "judge_x compared nothing"),
        ("empty_loop", "    for a in got['missing']:\n        equal(a, 1, 'a')\n", "TypeError"),
        ("bare_loop", "    for a in []:\n        equal(a, 1, 'a')\n", "compared nothing"),
        ("not_close", "    close(got, 2, 0.5, 'the number')\n", "the number"),
        ("not_true", "    truth(got > 1, 'it grew', got)\n", "it grew"),
        ("broken", "    raise ValueError('what is this')\n", "ValueError: what is this"),
    ],
)
def test_a_judge_that_does_not_agree(name: str, judge: str, says: str, book: RunnableBook) -> None:
    found = run(book, HEAD + pair("x", "    return 1\n", judge)).results[0]
    assert found.verdict == "failed"
    assert says in found.detail


def test_what_does_not_hold_shows_no_value_that_nobody_can_give(book: RunnableBook) -> None:
    judge = "    truth(got == 2, 'the number', got)\n"
    found = run(book, HEAD + pair("x", "    return 1\n", judge)).results[0]
    assert (found.expected, found.got) == ("something else", "1")


def test_a_probe_that_ends_just_in_time_passes(book: RunnableBook) -> None:
    text = HEAD + pair("slow", "    time.sleep(1.0)\n    return 1\n")
    assert verdicts(run(book, text, limit=2.5)) == {"slow": "passed"}


def test_the_limit_is_for_each_probe(book: RunnableBook) -> None:
    slow = "    time.sleep(1.0)\n    return 1\n"
    text = HEAD + "".join(pair(f"slow_{i}", slow) for i in range(3))
    assert set(verdicts(run(book, text, limit=2.5)).values()) == {"passed"}


def test_seeds_are_fixed_by_name_and_given_to_both(book: RunnableBook) -> None:
    text = HEAD + pair("x", "    return seed\n", "    equal(got, seed, 'seed')\n")
    assert verdicts(run(book, text)) == {"x": "passed"}
    [one] = pairs.read(book.root / TEST).pairs
    assert one.seed == pairs.Pair("x", 99).seed != pairs.Pair("y", 99).seed


def test_public_bugs_are_read_without_running_the_file(book: RunnableBook) -> None:
    mark = '\n@public_bug("B06", "B07")'
    file = book.write(TEST, HEAD + mark + pair("x", "    return 1\n").replace("\n\n", "\n", 1))
    assert [p.bugs for p in pairs.read(file).pairs] == [("B06", "B07")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("probe_alone", "def probe_x(seed):\n    return 1\n"),
        ("judge_alone", "def judge_x(seed, got):\n    pass\n"),
        ("import_at_the_top", "from minisgl.core import Loop\n" + pair("x", "    return 1\n")),
        ("import_in_judge", pair("x", "    return 1\n", "    import minisgl\n")),
        ("syntax_error", "def probe_x(seed:\n    return 1\n"),
    ],
)
def test_a_file_that_is_no_test_file(
    name: str, text: str, book: RunnableBook, golden: Golden
) -> None:
    file = book.write(TEST, text)
    with pytest.raises(UserError) as error:
        pairs.read(file)
    golden(f"pairs_{name}", str(error.value))


def test_only_skips_are_no_pass(book: RunnableBook) -> None:
    assert run(book, HEAD + pair("skips", PROBES["skips"])).verdict == "nothing ran"
    both = run(book, HEAD + pair("skips", PROBES["skips"]) + pair("right", "    return 1\n"))
    assert both.verdict == "passed"


def test_the_code_under_test_can_not_skip_its_test(book: RunnableBook) -> None:
    asks = "import unittest\n\n\ndef answer(ask=None):\n    raise unittest.SkipTest('no GPU')\n"
    book.edit("minisgl/core.py", "class Loop:", f"{asks}\n\nclass Loop:")
    probe = "    from minisgl.core import answer\n    return answer()\n"
    found = run(book, HEAD + pair("skips", probe) + pair("right", "    return 1\n"))
    assert verdicts(found) == {"skips": "failed", "right": "passed"}


@pytest.mark.parametrize(
    ("fake", "says"),
    [
        ("import minisgl\n", r"stub_engine.py:1: minisgl may only be imported inside a function"),
        ("from minisgl.core import Loop\n", r"stub_engine.py:1: minisgl.core may only"),
        ("x = 1\ndef f(:\n", r"stub_engine.py:2: .*; mend that line"),
    ],
)
def test_a_fake_is_refused_for_what_a_test_file_is(
    book: RunnableBook, fake: str, says: str
) -> None:
    book.write("tests/fakes/stub_engine.py", fake)
    text = HEAD + "import stub_engine\n" + pair("right", "    return 1\n")
    with pytest.raises(UserError, match=says):
        run(book, text)
    shown = text_of(book.check("tests"))
    assert re.search(says, shown) and "Traceback" not in shown


def test_a_fake_may_import_the_code_under_test_inside_a_function(book: RunnableBook) -> None:
    fake = "def loop():\n    from minisgl.core import Loop\n\n    return Loop([1]).ids\n"
    book.write("tests/fakes/stub_engine.py", fake)
    text = HEAD + "from stub_engine import loop\n"
    found = run(book, text + pair("right", "    return loop()\n", "    equal(got, [1], 'ids')\n"))
    assert verdicts(found) == {"right": "passed"}
