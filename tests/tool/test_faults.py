"""The runner of planted faults, on a made-up book."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from runnable_book import CORE, MODEL, Reference, RunnableBook

from steplib import faults
from steplib.errors import UserError
from steplib.faults import Fault, Planter
from steplib.process import Launcher

Golden = Callable[[str, str], None]
PARITY = Fault("second", 1, CORE, "ids.append(best)", "ids.append(second)", "parity", (MODEL,))
PAIR = Fault("twice", 1, CORE, "steps += 1", "steps += 2", "a_step_appends_the_best_token")
HARMLESS = Fault("harmless", 1, CORE, "Greedy", "Hungry", "parity", (MODEL,))


@pytest.fixture
def planter(tmp_path: Path) -> Planter:
    book = RunnableBook(tmp_path / "book")
    return Planter(book.load(), Reference(), Launcher(), book.root / "models")


@pytest.mark.parametrize("fault", [PARITY, PAIR])
def test_a_fault_is_caught_and_its_absence_is_not(fault: Fault, planter: Planter) -> None:
    assert [result.verdict for result in planter.clean(fault)] == ["passed"]
    assert [result.verdict for result in planter.caught(fault)] == ["failed"]


def test_a_change_that_does_no_harm_is_not_caught(planter: Planter) -> None:
    assert [result.verdict for result in planter.caught(HARMLESS)] == ["passed"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("no_such_text", Fault("gone", 1, CORE, "no such text", "", "parity", (MODEL,))),
        ("text_twice", Fault("twice", 1, CORE, "self.ids", "ids", "parity", (MODEL,))),
        ("no_such_file", Fault("far", 1, "minisgl/far.py", "x", "y", "parity", (MODEL,))),
        ("no_such_pair", Fault("x", 1, CORE, "steps += 1", "steps += 2", "no_such_pair")),
    ],
)
def test_a_fault_that_cannot_be_planted(
    name: str, fault: Fault, planter: Planter, golden: Golden
) -> None:
    with pytest.raises(UserError) as error:
        planter.caught(fault)
    golden(f"faults_{name}", str(error.value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty_list", "# none\n"),
        ("unknown_key", '[[fault]]\nname = "x"\nfile = "f"\nchapters = 1\n'),
        (
            "no_models",
            '[[fault]]\nname = "x"\nchapter = 1\nfile = "f"\nold = "a"\nnew = "b"\n'
            'caught_by = "parity"\n',
        ),
    ],
)
def test_a_list_that_is_refused(name: str, text: str, tmp_path: Path, golden: Golden) -> None:
    file = tmp_path / "planted.toml"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        faults.load(file)
    golden(f"faults_{name}", str(error.value))
