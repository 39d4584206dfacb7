"""A prediction runs in a process of its own, away from what is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from steplib import apart, exercises
from steplib.book import Book
from steplib.exercises import Exercise, attempt
from steplib.models import models_dir
from steplib.paths import ROOT
from steplib.warm import Warm

BOOK = Book.load(ROOT)


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm(models_dir()) as runner:
        yield runner


_PREDICTIONS = [exercise for exercise in exercises.every(BOOK) if exercise.recipe.kind == "predict"]
_COPIES = """
import builtins, json, sys


def copied(got):
    if isinstance(got, dict):
        if "measured" in got:
            got["predicted"] = got["measured"]
        got = list(got.values())
    for inner in got if isinstance(got, list | tuple) else ():
        copied(inner)


def dumps(whole, plain=json.dumps, **named):
    copied(whole)
    return plain(whole, **named)


json.dumps = dumps
if "checks" in sys.modules:
    for name, probe in list(vars(sys.modules["checks"]).items()):
        if name.startswith("probe_"):
            def copying(seed, probe=probe):
                got = probe(seed)
                copied(got)
                return got

            setattr(sys.modules["checks"], name, copying)


class Nothing(dict):
    def __missing__(self, key):
        return 0


def __getattr__(name):
    return lambda *a, **b: Nothing()
"""


@pytest.mark.parametrize("exercise", _PREDICTIONS, ids=lambda it: it.id)
def test_no_answer_can_copy_what_was_measured(warm: Warm, exercise: Exercise) -> None:
    found = attempt(BOOK, exercise, _COPIES.encode(), warm)
    assert not found.is_passed and found.passed == 0
    assert found.first is not None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("import os\nos._exit(0)\n", "answer.py ended the process that it ran in"),
        ("raise SystemExit(0)\n", "it left with exit code 0"),
        ("def tokens_computed(*_):\n    1 / 0\n", "ZeroDivisionError: division by zero (answer.py"),
        ("def tokens_computed(*_):\n    return object()\n", "the probe's data holds a object"),
        ("x = 1\n", "cannot import name 'tokens_computed'"),
        ("x = (\n", "(answer.py:1)"),
    ],
)
def test_what_goes_wrong_in_the_answers_own_process_is_told(
    warm: Warm, answer: str, said: str
) -> None:
    found = attempt(BOOK, exercises.find(BOOK, "00"), answer.encode(), warm)
    assert said in found.message


def test_what_an_answer_gives_back_comes_as_it_is(tmp_path: Path) -> None:
    text = """
from collections import Counter, namedtuple
Pair = namedtuple("Pair", "a b")
plain = [1, 2.5, None, True, "x", (1, {2: [3]}), {(1, 2): {4}}]
counted = Counter("aab")
def endless():
    while True:
        yield 1
def total(pair):
    return pair.a + pair.b
"""
    (tmp_path / "apart_answer.py").write_text(text)
    line = apart._Line(
        {"name": "apart_answer", "tree": str(tmp_path), "scratch": str(tmp_path), "root": "/x"}, []
    )
    assert line.ask("get", "plain") == [1, 2.5, None, True, "x", (1, {2: [3]}), {(1, 2): {4}}]
    assert line.ask("get", "counted") == {"a": 2, "b": 1}
    assert len(list(line.ask("get", "endless")())) == 100_000
    pair = line.ask("get", "Pair")(1, 2)
    assert pair == (1, 2) and line.ask("get", "total")(pair) == 3
    os.close(line.out)
    assert line.process.wait(10) == 0
