"""Broken submissions: what is broken is named, all else is graded, and nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from graded_book import CORE, PARTS, GradedBook, laid
from test_dishonest import MOST, needs_bubblewrap, whole

from pairs import public_bug
from steplib.grading import run
from steplib.grading.schema import Item, SubmissionReport

LIBC = "import ctypes\n\nlibc = ctypes.CDLL(None)\n\n\n"
BROKEN = "minisgl/part4.py"

Grade = Callable[[str, str], SubmissionReport]


@pytest.fixture
def grade(book: GradedBook, tmp_path: Path) -> Grade:
    """Grade the honest submission with another text in one file."""

    def graded(path: str, text: str) -> SubmissionReport:
        report = book.grade(laid(tmp_path / "student", book.honest() | {path: text}))
        whole(report)
        return report

    return graded


def only_failure(report: SubmissionReport) -> Item:
    [item] = [item for item in report.items if item.verdict != "passed"]
    assert report.points == MOST - item.max_points
    return item


@public_bug("B114")
@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time\n    while True:\n"
        "        try: time.sleep(9)\n        except BaseException: pass",
        "import signal\n    for n in range(1, 65):\n"
        "        try: signal.signal(n, signal.SIG_IGN)\n        except Exception: pass\n"
        "    while True: pass",
    ],
    ids=["a loop", "a handler that swallows everything", "ignored signals"],
)
def test_what_never_ends_costs_its_test_alone(grade: Grade, hasty: None, body: str) -> None:
    item = only_failure(grade(BROKEN, f"def value(x):\n    {body}\n"))
    assert (item.id, item.verdict) == ("01.tests.part_4_multiplies", "timed out")
    assert item.message == "timed out after 1 s"


def test_an_endless_import_leaves_the_others_their_points(grade: Grade, hasty: None) -> None:
    item = only_failure(grade(BROKEN, "while True: pass\n"))
    assert item.verdict == "timed out"


@public_bug("B121")
def test_just_before_the_limit_is_in_time(grade: Grade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PROBE_LIMIT", 1.0)
    code = "import time\n\n\ndef value(x):\n    time.sleep({})\n    return 4 * (x + 1)\n"
    assert grade(BROKEN, code.format(0.45)).points == MOST  # it is called twice
    assert only_failure(grade(BROKEN, code.format(0.55))).verdict == "timed out"


@public_bug("B121")
def test_a_submission_has_so_many_seconds(
    grade: Grade, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steplib.grading import submission

    monkeypatch.setattr(submission, "PER_CHAPTER", 0.5)
    monkeypatch.setattr(submission, "PER_EXERCISE", 0.0)
    report = grade("minisgl/__init__.py", "import time\ntime.sleep(0.6)\n")
    late = [item for item in report.items if item.verdict == "timed out"]
    assert "its 0.5 s were used up" in late[-1].message
    assert all(item.verdict in ("passed", "timed out") for item in report.items)


@needs_bubblewrap
def test_a_forked_child_ends_with_the_check(grade: Grade, tmp_path: Path) -> None:
    """It leaves its process group, and would go on for an hour."""
    code = LIBC + (
        "def value(x):\n"
        "    if libc.fork() == 0:\n"
        "        libc.setsid()\n"
        "        libc.prctl(15, b'outlives', 0, 0, 0)\n"
        "        libc.sleep(3600)\n"
        "    return 4 * (x + 1)\n"
    )
    begun = time.monotonic()
    grade(BROKEN, code)
    assert time.monotonic() - begun < 60
    assert "outlives" not in named_processes()


def named_processes() -> set[str]:
    """The names of all processes that have not ended."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (place / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if rest.split()[0] != "Z":
            found.add(name)
    return found


@needs_bubblewrap
def test_a_fork_bomb_is_stopped_and_the_others_are_graded(grade: Grade, hasty: None) -> None:
    code = LIBC + (
        "def value(x):\n"
        "    libc.prctl(15, b'bomb', 0, 0, 0)\n"
        "    while True:\n"
        "        libc.fork()\n"
    )
    assert only_failure(grade(BROKEN, code)).id == "01.tests.part_4_multiplies"
    assert "bomb" not in named_processes()


def test_a_memory_hog_is_refused_its_memory(grade: Grade) -> None:
    code = (
        "def value(x):\n    kept = []\n    while True:\n        kept.append(bytearray(1 << 26))\n"
    )
    item = only_failure(grade(BROKEN, code))
    assert "MemoryError" in item.message


def test_a_large_file_is_refused(grade: Grade) -> None:
    code = (
        "def value(x):\n    with open('/tmp/large', 'wb') as file:\n"
        "        for _ in range(4096):\n            file.write(bytes(1 << 20))\n"
    )
    item = only_failure(grade(BROKEN, code))
    assert "File too large" in item.message or "No space" in item.message, item.message


def test_a_crash_costs_its_test_alone(grade: Grade) -> None:
    item = only_failure(grade(BROKEN, LIBC + "def value(x):\n    ctypes.string_at(0)\n"))
    assert "SIGSEGV" in item.message


@public_bug("B116")
def test_a_syntax_error_in_one_of_ten_files(grade: Grade) -> None:
    report = grade(BROKEN, "def value(x):\n    return 4 *\n")
    item = only_failure(report)
    assert "SyntaxError" in item.message and "part4.py:2" in item.message
    assert f"{BROKEN}:2: this is not valid Python: invalid syntax." in report.notes


@public_bug("B116")
def test_a_file_that_is_no_text(book: GradedBook, tmp_path: Path) -> None:
    folder = laid(tmp_path / "student", book.honest())
    (folder / BROKEN).write_bytes(b"\x00\xff" * 50)
    report = book.grade(folder)
    whole(report)
    assert only_failure(report).id == "01.tests.part_4_multiplies"


@public_bug("B116")
def test_an_exception_at_import(grade: Grade) -> None:
    report = grade("minisgl/__init__.py", "1 / 0\n")
    assert report.points == 20  # the exercise
    assert all("__init__.py:1" in item.message for item in report.items if item.message)


def test_files_that_were_left_out(book: GradedBook, tmp_path: Path) -> None:
    files = book.honest()
    for path in (PARTS[7], PARTS[8]):
        del files[path]
    report = book.grade(laid(tmp_path / "student", files))
    whole(report)
    bad = [item for item in report.items if item.verdict != "passed"]
    assert [item.id[-12:] for item in bad] == ["7_multiplies", "8_multiplies"]
    assert ".: missing: minisgl/part7.py, minisgl/part8.py." in report.notes


@public_bug("B119")
def test_a_copy_beside_the_real_file_is_not_taken(book: GradedBook, tmp_path: Path) -> None:
    files = book.honest()
    files["minisgl/part4 copy.py"] = files[BROKEN]
    files[BROKEN] = "def value(x):\n    return 0\n"
    report = book.grade(laid(tmp_path / "student", files))
    whole(report)
    assert only_failure(report).id == "01.tests.part_4_multiplies"
    note = "minisgl/part4 copy.py was left aside: chapter 01 has no such file."
    assert note in report.notes


def test_nothing_was_handed_in(book: GradedBook, tmp_path: Path) -> None:
    report = book.grade(laid(tmp_path / "student", {"README.md": "sorry\n"}))
    whole(report)
    assert report.points == 0
    assert {item.verdict for item in report.items} == {"missing"}


@public_bug("B120")
def test_good_and_bad_in_turns_get_the_same_each_time(
    book: GradedBook, tmp_path: Path, hasty: None
) -> None:
    bad = {CORE: "import sys\nsys.modules['random'] = None\nraise KeyError('bad')\n"}
    good = laid(tmp_path / "good" / "student", book.honest())
    other = laid(tmp_path / "bad" / "student", book.honest() | bad)
    first, second = [
        [(item.id, item.verdict, item.message) for item in book.grade(folder).items]
        for folder in (good, other)
    ]
    seconds = []
    for folder, wanted in [(good, first), (other, second)] * 5:
        begun = time.monotonic()
        found = [(item.id, item.verdict, item.message) for item in book.grade(folder).items]
        seconds.append(time.monotonic() - begun)
        assert found == wanted
    assert max(seconds[-4:]) < 5 * max(seconds[:4]) + 1
