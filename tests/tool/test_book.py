"""The book model: trees, forms, and every way in which a book can contradict itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_up_book import CORE, CORE_OF_02, MANIFESTS, MadeUpBook, shown

from steplib.errors import UserError

Golden = Callable[[str, str], None]
KEPT = "steps/01-core-data-structures/files/minisgl/core.py"
LATER = '[[early]]\npath = "minisgl/late.py"\nowner = %d\nreason = "core needs it"\n'


def test_a_sound_book_has_no_problems(made_up: MadeUpBook) -> None:
    assert made_up.load().problems() == []


def test_a_tree_takes_the_newest_form_so_far(made_up: MadeUpBook) -> None:
    book = made_up.load()
    assert [book.tree(n).files["minisgl/core.py"].text() for n in (1, 2)] == [CORE, CORE_OF_02]
    assert "minisgl/ops.py" not in book.tree(1).files
    assert book.earlier_forms == 1


def test_marks_say_what_the_chapter_does(made_up: MadeUpBook) -> None:
    marks = {path: file.mark for path, file in made_up.load().tree("02").files.items()}
    assert marks == {
        "minimal_engine.py": "untouched",
        "minisgl/__init__.py": "untouched",
        "minisgl/core.py": "modified",
        "minisgl/ops.py": "created",
    }


def test_a_whole_early_file_comes_in_its_owners_form(made_up: MadeUpBook) -> None:
    early = LATER.replace("late", "ops") % 2 + "whole = true\n"
    made_up.manifest(1, MANIFESTS[1] + early)
    made_up.refresh()
    book = made_up.load()
    file = book.tree(1).files["minisgl/ops.py"]
    assert (file.mark, file.owner, file.source) == ("early", 2, book.root / "minisgl/ops.py")
    assert book.problems() == []


def test_an_early_file_whose_owner_is_not_written_lies_in_the_package(made_up: MadeUpBook) -> None:
    made_up.manifest(1, MANIFESTS[1] + LATER % 16)
    made_up.write("minisgl/late.py", "")
    made_up.refresh()
    book = made_up.load()
    assert book.problems() == []
    assert [(book.tree(n).files["minisgl/late.py"].mark) for n in (1, 2)] == ["early", "untouched"]


def test_an_early_file_grows_into_its_owners(made_up: MadeUpBook) -> None:
    made_up.manifest(1, MANIFESTS[1] + LATER % 2)
    made_up.manifest(2, MANIFESTS[2].replace('ops.py"', 'ops.py", "minisgl/late.py"'))
    made_up.write("steps/01-core-data-structures/files/minisgl/late.py", "A = 1\n")
    made_up.write("minisgl/late.py", "A = 2\n")
    made_up.refresh()
    book = made_up.load()
    assert book.problems() == []
    assert [book.tree(n).files["minisgl/late.py"].text() for n in (1, 2)] == ["A = 1\n", "A = 2\n"]


def test_the_tree_hash_depends_on_content_and_path(made_up: MadeUpBook) -> None:
    before = made_up.load().tree(2).sha256
    made_up.append("minisgl/ops.py", "# more\n")
    assert made_up.load().tree(2).sha256 != before


@pytest.mark.parametrize("wanted", [2, "2", "02", "02-op-layer"])
def test_a_chapter_is_found_by_number_or_name(made_up: MadeUpBook, wanted: int | str) -> None:
    assert made_up.load().chapter(wanted).name == "02-op-layer"


@pytest.mark.parametrize("wanted", ["7", "x", "-1", ""])
def test_an_unknown_chapter_is_named(made_up: MadeUpBook, wanted: str) -> None:
    with pytest.raises(UserError, match=f'no chapter "{wanted}"; the book has 00 to 02'):
        made_up.load().chapter(wanted)


def _two_owners(book: MadeUpBook) -> None:
    book.manifest(2, MANIFESTS[2].replace("ops.py", "core.py").replace("modifies", "# modifies"))


def _orphan_file(book: MadeUpBook) -> None:
    book.write("minisgl/stray.py", "")


def _orphan_form(book: MadeUpBook) -> None:
    book.write("steps/01-core-data-structures/files/minisgl/gone.py", "")


def _form_no_longer_earlier(book: MadeUpBook) -> None:
    book.manifest(2, MANIFESTS[2].replace('modifies = ["minisgl/core.py"]\n', ""))


def _missing_form(book: MadeUpBook) -> None:
    book.remove(KEPT)


def _missing_finished_file(book: MadeUpBook) -> None:
    book.remove("minisgl/ops.py")


def _last_tree_differs(book: MadeUpBook) -> None:
    """The author mended the last form where only earlier ones belong."""
    book.write("steps/02-op-layer/files/minisgl/core.py", CORE_OF_02 + "MENDED = True\n")


def _modified_before_created(book: MadeUpBook) -> None:
    book.manifest(1, MANIFESTS[1] + 'modifies = ["minisgl/ops.py"]\n')


def _early_after_created(book: MadeUpBook) -> None:
    book.manifest(2, MANIFESTS[2].split("modifies")[0] + LATER.replace("late", "core") % 3)


def _early_owner_is_another(book: MadeUpBook) -> None:
    book.manifest(1, MANIFESTS[1] + LATER.replace("late", "ops") % 3)


def _early_owner_does_not_create(book: MadeUpBook) -> None:
    book.manifest(1, MANIFESTS[1] + LATER % 2)
    book.write("minisgl/late.py", "")


def _stale_tree(book: MadeUpBook) -> None:
    book.append("minisgl/ops.py", "\n\nNEW = 1\n")


def _missing_tree(book: MadeUpBook) -> None:
    book.remove("steps/01-core-data-structures/TREE")


def _gap(book: MadeUpBook) -> None:
    (book.root / "steps/01-core-data-structures").rename(book.root / "steps/03-model-and-weights")
    text = 'number = 3\nslug = "model-and-weights"\n'
    book.write(
        "steps/03-model-and-weights/step.toml",
        MANIFESTS[1].replace('number = 1\nslug = "core-data-structures"\n', text),
    )


def _outside_the_plan(book: MadeUpBook) -> None:
    (book.root / "steps/02-op-layer").rename(book.root / "steps/02-operators")
    book.write("steps/02-operators/step.toml", MANIFESTS[2].replace("op-layer", "operators"))


def _folder_with_another_name(book: MadeUpBook) -> None:
    book.write("steps/3-models/main.py", "")


BROKEN: list[Callable[[MadeUpBook], None]] = [
    _two_owners,
    _orphan_file,
    _orphan_form,
    _form_no_longer_earlier,
    _missing_form,
    _missing_finished_file,
    _last_tree_differs,
    _modified_before_created,
    _early_after_created,
    _early_owner_is_another,
    _early_owner_does_not_create,
    _stale_tree,
    _missing_tree,
    _gap,
    _outside_the_plan,
    _folder_with_another_name,
]


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda function: function.__name__.strip("_"))
def test_a_broken_book_is_named(
    made_up: MadeUpBook, golden: Golden, break_it: Callable[[MadeUpBook], None]
) -> None:
    break_it(made_up)
    golden(f"book_{break_it.__name__.strip('_')}", shown(made_up.load().problems()))
