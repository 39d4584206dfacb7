"""freeze keeps a form; propagate carries a fix through the later ones, or changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import CORE, CORE_OF_02, MadeUpBook

from steplib import forms
from steplib.cli import main
from steplib.errors import UserError

Golden = Callable[[str, str], None]

NEXT = "steps/03-model-and-weights"
FIRST = "steps/01-core-data-structures/files/minisgl/core.py"
SECOND = "steps/02-op-layer/files/minisgl/core.py"
THIRD = "minisgl/core.py"
CORE_OF_03 = CORE_OF_02.replace("return 4", "return 5")


def _chapter_03(book: MadeUpBook) -> None:
    text = 'number = 3\nslug = "model-and-weights"\nmodifies = ["minisgl/core.py"]\n'
    book.write(f"{NEXT}/step.toml", text)


@pytest.fixture
def three_forms(made_up: MadeUpBook) -> MadeUpBook:
    """core.py in three committed forms: chapters 01 and 02, and 03 in the package."""
    forms.freeze(made_up.load(), "minisgl/core.py", 2)
    _chapter_03(made_up)
    made_up.write(THIRD, CORE_OF_03)
    made_up.refresh()
    assert made_up.load().problems() == []
    made_up.commit()
    return made_up


def _run(book: MadeUpBook, *words: str) -> int:
    return main(["--root", str(book.root), *words])


def test_freeze_then_list(made_up: MadeUpBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(made_up, "freeze", "minisgl/core.py", "2") == 0
    assert SECOND in capsys.readouterr().out
    assert made_up.read(SECOND) == CORE_OF_02
    assert [p.where for p in made_up.load().problems()] == [SECOND]  # until 03 lists the file
    _chapter_03(made_up)
    made_up.refresh()
    assert made_up.load().problems() == []


def test_list_then_freeze(made_up: MadeUpBook) -> None:
    _chapter_03(made_up)
    assert [p.where for p in made_up.load().problems()] == [SECOND]
    forms.freeze(made_up.load(), "minisgl/core.py", 2)
    assert made_up.read(SECOND) == CORE_OF_02


@pytest.mark.parametrize(
    ("name", "file", "chapter"),
    [
        ("unknown_file", "minisgl/cor.py", "2"),
        ("no_form", "minisgl/ops.py", "1"),
        ("kept_already", "minisgl/core.py", "1"),
        ("unknown_chapter", "minisgl/core.py", "9"),
    ],
)
def test_freeze_refuses(
    made_up: MadeUpBook, golden: Golden, name: str, file: str, chapter: str
) -> None:
    before = made_up.contents()
    with pytest.raises(UserError) as caught:
        forms.freeze(made_up.load(), file, chapter)
    golden(f"freeze_{name}", str(caught.value))
    assert made_up.contents() == before


def test_freeze_refuses_when_it_is_too_late(three_forms: MadeUpBook, golden: Golden) -> None:
    three_forms.remove(FIRST)
    with pytest.raises(UserError) as caught:
        forms.freeze(three_forms.load(), "minisgl/core.py", 1)
    golden("freeze_too_late", str(caught.value))


def test_a_fix_reaches_every_later_form(
    three_forms: MadeUpBook, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    three_forms.write(FIRST, CORE.replace("return 1", "return 10"))
    assert _run(three_forms, "propagate", "minisgl/core.py", "01") == 0
    golden("propagate_clean", capsys.readouterr().out)
    assert three_forms.read(SECOND) == CORE_OF_02.replace("return 1", "return 10")
    assert three_forms.read(THIRD) == CORE_OF_03.replace("return 1", "return 10")


def test_edits_of_a_later_form_are_kept_there(three_forms: MadeUpBook) -> None:
    three_forms.write(FIRST, CORE.replace("return 1", "return 10"))
    three_forms.write(SECOND, CORE_OF_02.replace("return 3", "return 30"))
    forms.propagate(three_forms.load(), "minisgl/core.py", 1)
    assert three_forms.read(SECOND) == CORE_OF_02.replace("return 3", "return 30").replace(
        "return 1", "return 10"
    )
    assert three_forms.read(THIRD) == CORE_OF_03.replace("return 1", "return 10")


def test_a_fix_that_is_there_already_changes_nothing(three_forms: MadeUpBook) -> None:
    three_forms.write(FIRST, CORE.replace("return 1", "return 10"))
    forms.propagate(three_forms.load(), "minisgl/core.py", 1)
    before = three_forms.contents()
    result = forms.propagate(three_forms.load(), "minisgl/core.py", 1)
    assert (result.changed, len(result.unchanged)) == ((), 2)
    assert three_forms.contents() == before


def test_a_conflict_changes_nothing(
    three_forms: MadeUpBook, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    three_forms.write(SECOND, CORE_OF_02.replace("return 1", "return 2"))
    three_forms.write(FIRST, CORE.replace("return 1", "return 10"))
    before = three_forms.contents()
    assert _run(three_forms, "propagate", "minisgl/core.py", "1") == 1
    golden("propagate_conflict", capsys.readouterr().out)
    assert three_forms.contents() == before


def test_a_conflict_in_the_last_form_leaves_the_others_alone(
    three_forms: MadeUpBook, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    two_lines = CORE_OF_03.replace('return "unchanged"', 'x = "other"\n    return x')
    three_forms.write(THIRD, two_lines)
    three_forms.write(FIRST, CORE.replace("unchanged", "mended"))
    before = three_forms.contents()
    assert _run(three_forms, "propagate", "minisgl/core.py", "1") == 1
    golden("propagate_conflict_later", capsys.readouterr().out)
    assert three_forms.contents() == before


def test_a_form_that_lost_the_lines_conflicts(three_forms: MadeUpBook) -> None:
    lost = CORE_OF_03.replace('def middle() -> str:\n    return "unchanged"\n\n\n', "")
    three_forms.write(THIRD, lost)
    three_forms.write(FIRST, CORE.replace("unchanged", "mended"))
    conflict = forms.propagate(three_forms.load(), "minisgl/core.py", 1).conflict
    assert conflict is not None
    assert lost.splitlines()[conflict.lines[0][0] - 1] == "def last() -> int:"


def test_a_conflict_after_the_last_line_is_placed_there(three_forms: MadeUpBook) -> None:
    short = CORE_OF_03[: CORE_OF_03.index("def last")]
    three_forms.write(THIRD, short)
    three_forms.write(FIRST, CORE.replace("def last()", "def last_one()"))
    conflict = forms.propagate(three_forms.load(), "minisgl/core.py", 1).conflict
    assert conflict is not None
    assert conflict.form.source == three_forms.root / THIRD
    assert abs(conflict.lines[0][0] - short.count("\n")) <= 1


def _nothing_to_carry(book: MadeUpBook) -> tuple[str, int]:
    return "minisgl/core.py", 1


def _no_later_form(book: MadeUpBook) -> tuple[str, int]:
    return "minisgl/core.py", 3


def _not_committed(book: MadeUpBook) -> tuple[str, int]:
    (book.root / ".git").rename(book.root / "git-is-gone")
    return "minisgl/core.py", 1


def _later_form_missing(book: MadeUpBook) -> tuple[str, int]:
    book.write(FIRST, CORE.replace("return 1", "return 10"))
    book.remove(SECOND)
    return "minisgl/core.py", 1


@pytest.mark.parametrize(
    "prepare",
    [_nothing_to_carry, _no_later_form, _not_committed, _later_form_missing],
    ids=lambda function: function.__name__.strip("_"),
)
def test_propagate_refuses(
    three_forms: MadeUpBook, golden: Golden, prepare: Callable[[MadeUpBook], tuple[str, int]]
) -> None:
    file, chapter = prepare(three_forms)
    before = three_forms.contents()
    with pytest.raises(UserError) as caught:
        forms.propagate(three_forms.load(), file, chapter)
    golden(f"propagate_{prepare.__name__.strip('_')}", str(caught.value))
    assert three_forms.contents() == before


def test_all_files_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from steplib import paths

    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("old")
    real, calls = paths._draft, []

    def full_at_the_second(path: Path, data: bytes) -> Path:
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(paths, "_draft", full_at_the_second)
    with pytest.raises(OSError, match="No space"):
        paths.write_all({one: "new", two: "new"})
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert one.read_text() == "old"
