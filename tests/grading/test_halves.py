"""What runs beside a student's code holds no expected value, and still runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from steplib.grading.halves import probes_only, without_unused
from steplib.paths import ROOT

FILES = sorted((ROOT / "tests").glob("test_ch*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_probe_stays_where_it_was_and_no_judge_stays(path: Path) -> None:
    whole, half = ast.parse(path.read_text()), ast.parse(probes_only(path))
    lines = {node.name: node.lineno for node in whole.body if isinstance(node, ast.FunctionDef)}
    kept = {node.name: node.lineno for node in half.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in lines if name.startswith("probe_")} <= set(kept)
    assert kept.items() <= lines.items()
    assert not [name for name in kept if name.startswith("judge_")]
    called = {ast.unparse(node.func) for node in ast.walk(half) if isinstance(node, ast.Call)}
    assert not called & {"equal", "close", "refused"}


def test_what_only_a_judge_uses_goes_along() -> None:
    text = """\
import math
from pairs import draw, equal

LIMIT = 5
RIGHT = {"a": LIMIT}
print("at import")


def both(x):
    return math.floor(x) + LIMIT


def expected():
    return RIGHT


def probe_a(seed):
    return both(draw(seed))


def judge_a(seed, got):
    equal(got, expected(), "a")
"""
    half = without_unused(text, {"probe_a"})
    assert half.count("\n") == text.count("\n")
    for gone in ("RIGHT", "expected", "judge_a", "equal"):
        assert gone not in half
    for kept in ("import math", "from pairs import draw", "LIMIT = 5", 'print("at import")'):
        assert kept in half
