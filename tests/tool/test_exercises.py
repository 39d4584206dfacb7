"""Every exercise: the starter fails, the solution passes, each wrong answer gets its message."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steplib import catalogue, docs, exercises
from steplib.book import Book
from steplib.cli import main
from steplib.commands import exercise as command
from steplib.errors import UserError
from steplib.exercises import Exercise, Wrong, attempt
from steplib.exercises.exercise import Edit
from steplib.grading.exam import salted
from steplib.models import models_dir, present
from steplib.pairs import TestFile
from steplib.paths import ROOT
from steplib.warm import Warm

Golden = Callable[[str, str], None]
BOOK = Book.load(ROOT)
EXERCISES = exercises.every(BOOK)
WRONG = [(exercise, wrong) for exercise in EXERCISES for wrong in exercise.recipe.wrong]
TWICE = {9: 2}
"""How many exercises a chapter has where it has more than one."""

each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda it: it.id)
each_wrong = pytest.mark.parametrize(
    ("exercise", "wrong"), WRONG, ids=[f"{it.id}-{wrong.name}" for it, wrong in WRONG]
)


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm(models_dir()) as runner:
        yield runner


def tried(
    warm: Warm, exercise: Exercise, answer: bytes, tests: TestFile | None = None
) -> exercises.Attempt:
    for model in exercise.recipe.models:
        if not present(model):
            pytest.skip(f"NOT TESTED: {model} is missing; run: make models")
    return attempt(BOOK, exercise, answer, warm, tests)


def test_there_are_exercises() -> None:
    assert EXERCISES
    assert len({exercise.id for exercise in EXERCISES}) == len(EXERCISES)
    for exercise in EXERCISES:
        siblings = exercises.exercise.of_chapter(exercise.chapter)
        assert len(siblings) == TWICE.get(exercise.chapter.number, 1)


@each
def test_the_starter_fails(warm: Warm, exercise: Exercise) -> None:
    found = tried(warm, exercise, exercise.starter.read_bytes())
    assert not found.is_passed
    assert found.run.results and found.message
    assert not found.run.violations
    assert all(it.verdict in ("passed", "failed") for it in found.run.results), found.message


@each
def test_an_empty_answer_fails_everything(warm: Warm, exercise: Exercise) -> None:
    found = tried(warm, exercise, b"")
    assert found.passed == 0 and "answer" in found.message


@each
def test_the_solution_passes(warm: Warm, exercise: Exercise) -> None:
    found = tried(warm, exercise, exercise.solution.read_bytes())
    told = [f"{it.name}: {it.detail}, {it.expected}, {it.got}" for it in found.run.results]
    assert found.is_passed, "\n".join([found.message, *told])


@each
@pytest.mark.parametrize("seed", [1, 2])
def test_the_solution_passes_with_other_seeds(warm: Warm, exercise: Exercise, seed: int) -> None:
    """As a grading draws them."""
    found = tried(warm, exercise, exercise.solution.read_bytes(), salted(exercise.pairs(), seed))
    assert found.is_passed, found.message


@each_wrong
def test_a_wrong_answer_gets_its_message(warm: Warm, exercise: Exercise, wrong: Wrong) -> None:
    found = tried(warm, exercise, exercise.answer(wrong).encode())
    assert not found.is_passed
    assert wrong.says in found.message, found.message
    others = [it.says for it in exercise.recipe.wrong if it.name != wrong.name]
    assert wrong.says not in others, "two misunderstandings with one message"


@each
def test_an_exercise_is_whole(exercise: Exercise) -> None:
    recipe = exercise.recipe
    assert len(recipe.wrong) >= 3
    assert len(set(recipe.hints)) == exercises.exercise.HINTS and all(map(str.strip, recipe.hints))
    assert recipe.title.strip() and recipe.about.strip() and recipe.minutes > 0
    assert f"exercise check {exercise.id} --mine" in exercise.statement
    assert len({wrong.name for wrong in recipe.wrong}) == len(recipe.wrong)
    answers = [file.read_text(encoding="utf-8") for file in (exercise.starter, exercise.solution)]
    answers += map(exercise.answer, recipe.wrong)
    codes = {ast.dump(ast.parse(text)) for text in answers}
    assert len(codes) == len(answers), "two answers are the same code"


def test_an_edit_must_have_one_place() -> None:
    exercise = exercises.find(BOOK, "00")
    for old, count in (("no such line", 0), ("\n", exercise.solution.read_text().count("\n"))):
        wrong = Wrong("nowhere", "", (Edit(old, ""),))
        with pytest.raises(UserError, match=f"has {count} places"):
            exercise.answer(wrong)


@each
def test_the_symbol_of_upstream_is_in_the_catalogue(exercise: Exercise) -> None:
    if exercise.recipe.upstream:
        assert catalogue.load().permalink(exercise.recipe.upstream)


@each
def test_its_chapters_page_leads_to_it(exercise: Exercise) -> None:
    """By the block `exercises`; what it holds is proved with all generated blocks."""
    page = (ROOT / "docs" / "chapters" / f"{exercise.chapter.name}.md").read_text(encoding="utf-8")
    assert f"exercise start {exercise.id} --into" in page


def test_one_page_lists_all() -> None:
    assert not docs.problems(BOOK, [ROOT / "docs" / "exercises.md"])


@pytest.fixture
def steps(
    warm: Warm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run `exercise` on the book; what it says."""
    monkeypatch.setattr(command, "Launcher", lambda models: warm)

    def run(*words: str, status: int = 0) -> str:
        assert main(["exercise", *words]) == status
        out, err = capsys.readouterr()
        return err if status == 2 else out

    return run


@pytest.fixture
def laid(steps: Callable[..., str], tmp_path: Path) -> Path:
    """The folder of exercise 00 as start lays it."""
    steps("start", "00", "--into", str(tmp_path))
    return tmp_path / "00"


def test_start_keeps_what_the_reader_changed(
    steps: Callable[..., str], laid: Path, tmp_path: Path, golden: Golden
) -> None:
    (laid / "answer.py").write_text("mine = 1\n")
    golden("exercise_start_again", steps("start", "0", "--into", str(tmp_path)))
    assert (laid / "answer.py").read_text() == "mine = 1\n"
    assert f"exercise check 00 --mine {laid}" in (laid / "README.md").read_text()


def test_an_exercise_s_folder_is_no_place_for_a_chapter(
    laid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("start", "01", "--into"), ("catch-up", "01", "--mine"), ("status", "--mine")):
        assert main(["--root", str(ROOT), *words, str(laid)]) == 2
        said = capsys.readouterr().err
        assert "not from the handbook" in said or "lies in no working folder" in said
    assert sorted(path.name for path in laid.iterdir() if path.suffix == ".py") == ["answer.py"]


def test_start_lays_nothing_into_the_handbook(steps: Callable[..., str]) -> None:
    told = steps("start", "00", "--into", str(ROOT / "steps"), status=2)
    assert "belongs to the handbook" in told


def test_check_says_what_to_do_next(steps: Callable[..., str], laid: Path, golden: Golden) -> None:
    golden("exercise_check_starter", steps("check", "00", "--mine", str(laid), status=1))
    exercise = exercises.find(BOOK, "00")
    (laid / "answer.py").write_text(exercise.answer(exercise.recipe.wrong[0]))
    golden("exercise_check_wrong", steps("check", "00", "--mine", str(laid), status=1))
    (laid / "answer.py").write_bytes(exercise.solution.read_bytes())
    golden("exercise_check_passes", steps("check", "00", "--mine", str(laid)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("leaves", "import os\nos._exit(0)\n"),
        ("asks to be skipped", "import unittest\nraise unittest.SkipTest('no')\n"),
        ("is no Python", "def\n"),
        ("reads the solution", f"exec(open({str(ROOT)!r} + '/{{}}').read())\n"),
    ],
)
def test_an_answer_that_does_not_answer_fails(
    warm: Warm, tmp_path: Path, name: str, text: str
) -> None:
    exercise = exercises.find(BOOK, "00")
    file = tmp_path / "answer.py"
    file.write_text(text.format(exercise.solution.relative_to(ROOT)))
    found = attempt(BOOK, exercise, file.read_bytes(), warm)
    assert not found.is_passed and found.passed == 0 and found.message


_LOOKING = {
    "a frame": "import sys\ndef around(): return sys._getframe(2)\n",
    "inspect": "import inspect\ndef around(): return inspect.currentframe().f_back.f_back\n",
    "traceback": "import traceback\ndef around(): return [*traceback.walk_stack(None)][2][0]\n",
    "an error": """
def around():
    try:
        raise KeyError
    except KeyError as error:
        return error.__traceback__.tb_frame.f_back.f_back
""",
    "a generator": """
def around():
    found = (made[0].gi_frame.f_back.f_back.f_back for _ in range(1))
    made = [found]
    return next(found)
""",
    "gc": "import gc\ndef around(): return gc.get_objects()\n",
}
_COPIED = """
def tokens_computed(*_):
    frame = around()
    while "run" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["run"]["tokens"]
"""


@pytest.mark.parametrize("way", _LOOKING)
def test_an_answer_that_looks_for_what_was_measured_fails(warm: Warm, way: str) -> None:
    answer = (_LOOKING[way] + _COPIED).encode()
    found = attempt(BOOK, exercises.find(BOOK, "00"), answer, warm)
    said = "answer.py looks at frames or objects that are not its own"
    assert set(found.run.violations) == {said}
    assert not found.is_passed and found.passed == 0


def test_hints_come_one_by_one(steps: Callable[..., str], golden: Golden) -> None:
    golden("exercise_hints", "".join(steps("check", "00", "--hint", n) for n in "123"))


def test_diff_shows_upstreams_signature_and_place(
    steps: Callable[..., str], laid: Path, golden: Golden
) -> None:
    golden("exercise_diff", steps("diff", "00", "--mine", str(laid)))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of upstream with one property."""
    package = tmp_path / "upstream" / "python" / "minisgl"
    package.mkdir(parents=True)
    source = "class Req:\n    @property\n    def extend_len(self) -> int:\n        return 1\n"
    (package / "core.py").write_text(source)
    return tmp_path / "upstream"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("one_name", "class Req:\n    def extend_len(self):\n        return 2\n"),
        ("other_names", "def new_tokens(total, cached):\n    return total - cached\n"),
    ],
)
def test_diff_compares_with_a_checkout(
    steps: Callable[..., str], laid: Path, checkout: Path, golden: Golden, name: str, answer: str
) -> None:
    (laid / "answer.py").write_text(answer)
    told = steps("diff", "00", "--mine", str(laid), "--upstream", str(checkout))
    golden(f"exercise_diff_{name}", told)


def test_a_checkout_without_the_symbol_is_refused(
    steps: Callable[..., str], laid: Path, checkout: Path
) -> None:
    (checkout / "python" / "minisgl" / "core.py").write_text("class Req:\n    pass\n")
    words = ["diff", "00", "--mine", str(laid), "--upstream", str(checkout)]
    assert "has no Req.extend_len; check out commit" in steps(*words, status=2)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_id", ["check"]),
        ("unknown_id", ["check", "77"]),
        ("no_folder", ["start", "00"]),
        ("no_answer", ["check", "00", "--mine", "/nowhere"]),
    ],
)
def test_wrong_use_is_one_sentence(
    steps: Callable[..., str], golden: Golden, name: str, words: list[str]
) -> None:
    golden(f"exercise_{name}", steps(*words, status=2))


def test_a_folder_that_is_not_whole_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "half"
    folder.mkdir()
    keys = 'title = "T"\nabout = "A."\nkind = "fault"\nminutes = 1\nwrong = []\n'
    (folder / "exercise.toml").write_text(keys + 'hints = ["one"]\n')
    with pytest.raises(UserError, match="write 3 hints, not 1"):
        exercises.loaded(BOOK.chapter(0), folder)
    (folder / "exercise.toml").write_text(keys + 'hints = ["one", "two", "three"]\n')
    with pytest.raises(UserError, match="statement.md is missing"):
        exercises.loaded(BOOK.chapter(0), folder)


def test_an_answer_that_is_no_text_is_one_sentence(steps: Callable[..., str], laid: Path) -> None:
    (laid / "answer.py").write_bytes(b"\xff\n")
    said = steps("diff", "00", "--mine", str(laid), status=2)
    assert said == f"error: {laid / 'answer.py'} is not UTF-8; save it as UTF-8.\n"
