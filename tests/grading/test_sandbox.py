"""The sandbox without bubblewrap, and transformers' answers for a class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graded_book import GradedBook, laid
from test_broken import LIBC, named_processes
from test_dishonest import MOST

from steplib.grading import isolation, libraries
from steplib.grading.references import ClassReferences
from steplib.grading.soundness import is_sound
from steplib.models import models_dir
from steplib.oracle import Oracle
from steplib.prompts import PromptSet


@pytest.mark.parametrize("kind", ["namespaces", "limits"])
def test_what_is_left_behind_ends_in_each_kind(
    book: GradedBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "namespaces" and not isolation.works("namespaces"):
        pytest.skip("namespaces are not allowed here")
    monkeypatch.setattr(isolation, "strictest", lambda: kind)
    code = LIBC + (
        "def value(x):\n"
        "    if libc.fork() == 0:\n"
        "        libc.setsid()\n"
        f"        libc.prctl(15, b'left-{kind[:4]}', 0, 0, 0)\n"
        "        libc.sleep(600)\n"
        "    return 4 * (x + 1)\n"
    )
    report = book.grade(laid(tmp_path / "student", book.honest() | {"minisgl/part4.py": code}))
    assert report.points in (MOST, MOST - 4.5)
    assert f"left-{kind[:4]}" not in named_processes()


def test_no_model_can_run_in_the_sandbox() -> None:
    slim = next(source for source, place in libraries.replaced() if place.name == "transformers")
    files = [*slim.glob("models/*/modeling_*.py"), *slim.glob("models/*/__pycache__/modeling_*")]
    assert len(files) > 100 and all(path.suffix == ".py" for path in files)
    assert not [path for path in files if "torch" in path.read_text()]
    assert "torch" not in (slim / "generation" / "utils.py").read_text()


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "unknown"},
        {"kind": []},
        {"kind": "probe", "name": "x"},
        {"kind": "skip", "name": "x"},
        {"kind": "error", "name": "x", "error": 1, "message": "", "place": "", "trace": ""},
        {"kind": "generation", "token_ids": 5, "top2": [], "counters": {}},
        {"kind": "generation", "token_ids": [], "top2": [[[[0.5, 1.0], [1, 2.0]]]], "counters": {}},
        {"kind": "generation", "token_ids": [["1"]], "top2": [], "counters": {}},
        {"kind": "end", "modules": {"a": ["b"]}, "violations": [], "lines": {}},
        {"kind": "end", "modules": {}, "violations": [7], "lines": {}},
        {"kind": "exit", "status": "0"},
    ],
)
def test_a_record_of_another_shape_is_a_forged_one(record: dict[str, object]) -> None:
    assert not is_sound(record)


def test_records_as_children_send_them_are_sound() -> None:
    assert is_sound({"kind": "generation", "index": 0, "token_ids": [[3]], "counters": {"a": 1},
                     "top2": [[[[3, 1.5], [2, float("-inf")]]]]})  # fmt: skip
    assert is_sound({"kind": "probe", "name": "x", "got": None})
    assert is_sound({"kind": "start"}) and is_sound({"kind": "exit", "status": -9})


@pytest.mark.slow
def test_a_class_gets_the_answers_that_each_would_get_alone(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    model = models_dir() / "tiny-qwen3"
    sets = [PromptSet(((1, 2), (3, 4, 5), (7,)), 5), PromptSet(((9, 8), (2, 2, 2), (6,)), 5)]
    together = ClassReferences(tmp_path)
    together.prepare([(model, prompts) for prompts in sets])
    alone = Oracle(tmp_path)
    alone.prepare([(model, prompts) for prompts in sets])
    for prompts in sets:
        first, second = (it.reference(model, prompts) for it in (together, alone))
        assert first.tokens == second.tokens
        for number in range(3):
            for place in range(5):
                np.testing.assert_allclose(
                    first.logits(number, place), second.logits(number, place), atol=1e-4
                )


@pytest.mark.skipif(isolation.strictest() != "bubblewrap", reason="bubblewrap isn't here")
def test_a_prediction_reaches_no_other_process(book: GradedBook, tmp_path: Path) -> None:
    """Their memory holds what was measured, and the secret that records are signed with."""
    answer = """
import os


def reached(pid, name):
    try:
        os.listdir(f"/proc/{pid}/fd") if name == "fd" else open(f"/proc/{pid}/{name}", "rb")
        return True
    except OSError:
        return False


def steps(tokens):
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    return {name: [pid for pid in others if reached(pid, name)] for name in ("fd", "mem")}
"""
    report = book.grade(laid(tmp_path / "cheat", {"01/answer.py": answer}))
    message = next(item.message for item in report.items if item.id == "exercise.01")
    assert "got      {'fd': [], 'mem': []}" in message
