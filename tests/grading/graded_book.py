"""A small book to grade: chapter 01 of the runnable book with ten more files and an exercise."""

from __future__ import annotations

from pathlib import Path

from runnable_book import CORE, Reference, RunnableBook

from steplib.book import Book
from steplib.grading.calibration import Calibration, calibrated
from steplib.grading.exam import Exam
from steplib.grading.schema import SubmissionReport
from steplib.grading.submission import grade

PARTS = [f"minisgl/part{number}.py" for number in range(10)]
CHAPTER, EXERCISE = "steps/01-core-data-structures", "count-steps"
_STEP = """\
number = 1
slug = "core-data-structures"
creates = [{files}]

[parity]
models = ["tiny-made"]
counters = ["steps"]
"""
_PART = '''\
def value(x):
    """The {number}th multiple of what follows x."""
    return {number} * (x + 1)
'''
_PAIR = """

def probe_part_{number}_multiplies(seed):
    from minisgl.part{number} import value

    return [value(seed % 97), value(3)]


def judge_part_{number}_multiplies(seed, got):
    equal(got, [{number} * (seed % 97 + 1), {number} * 4], "multiples")
"""
_EXERCISE = {
    "exercise.toml": """\
title = "Count steps"
about = "A loop's steps."
kind = "predict"
minutes = 5
hints = ["Look.", "Count.", "Add one."]

[[wrong]]
name = "none"
says = "steps"
edits = [{ old = "return tokens", new = "return 0" }]
""",
    "statement.md": "Say how many steps.\n",
    "starter.py": "def steps(tokens):\n    raise NotImplementedError\n",
    "solution.py": "def steps(tokens):\n    return tokens\n",
    "checks.py": """\
from pairs import equal


def probe_steps_are_tokens(seed):
    from answer import steps

    return steps(seed % 50 + 1)


def judge_steps_are_tokens(seed, got):
    equal(got, seed % 50 + 1, "steps")
""",
}


class GradedBook(RunnableBook):
    """Grades in this process: what runs is in sandboxes all the same."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for number, path in enumerate(PARTS):
            self.write(path, _PART.format(number=number))
            self.append("tests/test_ch01_core.py", _PAIR.format(number=number))
        files = ", ".join(f'"{path}"' for path in ("minisgl/__init__.py", CORE, *PARTS))
        self.write(f"{CHAPTER}/step.toml", _STEP.format(files=files))
        for path, text in _EXERCISE.items():
            self.write(f"{CHAPTER}/exercises/{EXERCISE}/{path}", text)
        self.refresh()
        self.exam = Exam(root.resolve(), (1,), ("01",), seed=5)
        self.calibrations: dict[int, Calibration] = {}

    def honest(self) -> dict[str, str]:
        """A submission that is right throughout."""
        tree = Book.load(self.root).reference(1).files
        files = {path: file.text() + "# mine\n" for path, file in tree.items()}
        return files | {"01/answer.py": _EXERCISE["solution.py"] + "# mine\n"}

    def grade(self, place: Path) -> SubmissionReport:
        """The report on the folder or zip."""
        seed = self.exam.seed_of(place.name.removesuffix(".zip"))
        found = calibrated(self.exam, 1, [seed])
        return grade(self.exam, {1: found}, place, 0, Reference())


def laid(folder: Path, files: dict[str, str]) -> Path:
    """The folder with these files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder
