"""No trick earns a point; each report stays whole, with the same sum of maxima for everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import CORE, PACKAGE, TRICKS, Trick, idle, reads
from graded_book import GradedBook, laid
from runnable_book import Reference

from pairs import public_bug
from steplib.grading import cell, isolation, submission
from steplib.grading.exam import MAIN_LENGTHS
from steplib.grading.schema import SubmissionReport
from steplib.paths import ROOT
from steplib.prompts import PromptSet, prompt_set

MOST = 120.0
needs_bubblewrap = pytest.mark.skipif(
    isolation.strictest() != "bubblewrap", reason="bubblewrap isn't here"
)


def graded(book: GradedBook, folder: Path, trick: Trick) -> SubmissionReport:
    report = book.grade(laid(folder / "cheat", trick(idle(book.honest()))))
    whole(report)
    return report


def whole(report: SubmissionReport) -> None:
    """Everything has one verdict, and the sums are right."""
    assert report.max_points == MOST == sum(item.max_points for item in report.items)
    assert report.points == sum(item.points for item in report.items)
    for item in report.items:
        assert item.points == (item.max_points if item.verdict == "passed" else 0)
        assert item.verdict == "passed" or item.message, item.id


def message_of(report: SubmissionReport, wanted: str) -> str:
    return next(item.message for item in report.items if item.id == wanted)


@public_bug("B106", "B108", "B109", "B111", "B112")
@pytest.mark.parametrize("name", TRICKS)
def test_no_trick_earns_a_point(book: GradedBook, tmp_path: Path, hasty: None, name: str) -> None:
    report = graded(book, tmp_path, TRICKS[name])
    assert report.points == 0, [item.id for item in report.items if item.points]
    assert all(item.verdict != "error" for item in report.items)


def test_an_honest_submission_earns_everything(book: GradedBook, tmp_path: Path) -> None:
    report = book.grade(laid(tmp_path / "honest", book.honest()))
    whole(report)
    assert report.points == MOST
    assert not [note for note in report.notes if "bubblewrap" not in note]


def test_an_untouched_starter_earns_nothing(book: GradedBook, tmp_path: Path) -> None:
    from steplib import starter

    files = {path: data.decode() for path, data in starter.contents(book.load(), 1).items()}
    report = book.grade(laid(tmp_path / "untouched", files))
    whole(report)
    assert report.points == 0


@public_bug("B112")
@needs_bubblewrap
@pytest.mark.parametrize("where", ["the book", "the handbook"])
def test_the_book_is_not_there(book: GradedBook, tmp_path: Path, where: str) -> None:
    root = book.root if where == "the book" else ROOT
    report = graded(book, tmp_path, reads(str(root)))
    assert report.points == 0
    assert "errno 2" in message_of(report, "01.tests.part_1_multiplies")


def test_no_expected_value_is_within_reach(book: GradedBook, tmp_path: Path) -> None:
    report = graded(book, tmp_path, TRICKS["asks_the_judge"])
    said = message_of(report, "01.tests.part_1_multiplies")
    assert "texts, 0 with an answer" in said


@public_bug("B112")
def test_transformers_can_not_answer(book: GradedBook, tmp_path: Path) -> None:
    asked = "from transformers import AutoModelForCausalLM\nAutoModelForCausalLM.from_pretrained\n"
    files = idle(book.honest())
    report = book.grade(laid(tmp_path / "cheat", files | {CORE: asked + files[CORE]}))
    assert report.points == 0
    item = next(item for item in report.items if item.id == "01.main")
    assert "can't be imported" in item.message or "Could not import" in item.message


def test_what_was_brought_along_is_named(book: GradedBook, tmp_path: Path) -> None:
    for name, paths in {
        "hides_modules": ("torch.py", "json.py", "minisgl/json.py"),
        "brings_tests": ("conftest.py", "pairs.py", "tests/test_ch01_core.py"),
    }.items():
        report = book.grade(laid(tmp_path / name, TRICKS[name](book.honest())))
        assert report.points == MOST
        for path in paths:
            assert any(note.startswith(f"{path} was left aside") for note in report.notes), path


def recorded(table: dict[tuple[int, ...], list[list[float]]]) -> str:
    """A loop that looks its rows up by prompt, and computes nothing."""
    return f"""\
TABLE = {table!r}


class Loop:
    def __init__(self, prompt):
        self.rows, self.ids, self.steps = TABLE[tuple(prompt)], list(prompt), 0

    def step(self):
        row = self.rows[self.steps]
        best, second = sorted(range(16), key=row.__getitem__)[:-3:-1]
        self.ids.append(best)
        self.steps += 1
        return (best, row[best]), (second, row[second])
"""


def test_recorded_answers_are_for_other_prompts(book: GradedBook, tmp_path: Path) -> None:
    """Right for the prompts and seeds that everybody can see, and for nothing else."""
    model = book.root / "models" / "tiny-made"
    prompts = prompt_set(model)
    rows = Reference().reference(model, prompts).rows
    code = recorded(dict(zip(prompts.prompts, rows, strict=True)))
    report = book.grade(laid(tmp_path / "cheat", idle(book.honest()) | {CORE: code}))
    whole(report)
    assert report.points == 0


def test_tokens_recorded_for_main_alone_earn_nothing(book: GradedBook, tmp_path: Path) -> None:
    """Its prompts are the same for everybody, so it counts only beside parity."""
    main = PromptSet(((1, 2, 3),), max_tokens=max(MAIN_LENGTHS))
    rows = Reference().reference(book.root, main).rows
    files = idle(book.honest()) | {CORE: recorded({(1, 2, 3): rows[0]})}
    report = book.grade(laid(tmp_path / "cheat", files))
    whole(report)
    assert report.points == 0
    assert message_of(report, "01.main") == submission.ALONE


@public_bug("B106")
def test_a_way_out_in_one_function_costs_its_test_alone(book: GradedBook, tmp_path: Path) -> None:
    files = book.honest() | {"minisgl/part4.py": "import os\n\n\ndef value(x):\n    os._exit(0)\n"}
    report = book.grade(laid(tmp_path / "one", files))
    [item] = [item for item in report.items if item.verdict != "passed"]
    assert item.id == "01.tests.part_4_multiplies"
    assert "left with exit code 0 before its work was done" in item.message


@needs_bubblewrap
def test_there_is_no_network_and_no_secret(
    book: GradedBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_TOKEN", "secret")
    code = """\
import os
import socket


def value(x):
    found = [os.environ.get("GRADER_TOKEN"), os.path.exists("/etc/shadow"), os.getuid() == 0]
    try:
        socket.create_connection(("192.0.2.1", 80), 0.5)
        found.append("network")
    except OSError as error:
        found.append(str(error))
    raise RuntimeError(repr(found))
"""
    report = book.grade(laid(tmp_path / "spy", book.honest() | {"minisgl/part4.py": code}))
    [item] = [item for item in report.items if item.verdict != "passed"]
    assert "[None, False, False, " in item.message and "unreachable" in item.message


def test_output_without_end_is_ended(
    book: GradedBook, tmp_path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "OUTPUT_BYTES", 8 << 20)
    code = "def value(x):\n    while True:\n        print('x' * 100_000)\n"
    report = book.grade(laid(tmp_path / "loud", book.honest() | {"minisgl/part4.py": code}))
    [item] = [item for item in report.items if item.verdict != "passed"]
    assert "it printed more than 8 MB" in item.message


def test_an_empty_package_earns_nothing(book: GradedBook, tmp_path: Path) -> None:
    report = book.grade(laid(tmp_path / "empty", dict.fromkeys([PACKAGE, CORE], "")))
    whole(report)
    assert report.points == 0
