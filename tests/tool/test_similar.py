"""similar: a copy is found under other names, and people who solved the same task are not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MadeUpBook
from made_up_solutions import ADA, BOB, CY, STARTER

from steplib.cli import main
from steplib.grading.similar import pairs, prints, report
from steplib.grading.similar.pairs import Found
from steplib.grading.similar.tokens import tokens

NAMES = {"self": "this", "mine": "already", "missing": "n", "held": "by_owner", "free": "left",
         "pages": "xs", "admitted": "done", "name": "who", "tokens": "length"}  # fmt: skip


def renamed(text: str) -> str:
    """The same program with other names, comments, blank lines and messages."""
    for old, new in NAMES.items():
        text = re.sub(rf"\b{old}\b", new, text)
    text = re.sub(r"^( +)if ", r"\n\1# look first\n\1if ", text, flags=re.M)
    return re.sub(r'"[a-z ]+ twice"', '"oh no"', text)


def compared(submissions: dict[str, str], starter: str = STARTER) -> Found:
    handed_out = {starter.encode()}
    everybody = [
        prints.read(name, {"pool.py": text.encode()}, handed_out)
        for name, text in submissions.items()
    ]
    return pairs.compare(everybody, prints.all_grams(handed_out))


def names(found: Found) -> list[tuple[str, str]]:
    return [pair.names for pair in found.pairs]


def test_a_renamed_copy_is_found_with_its_lines() -> None:
    found = compared({"ada": ADA, "bob": BOB, "copy": renamed(ADA), "cy": CY})
    assert names(found) == [("ada", "copy")]
    pair = found.pairs[0]
    assert pair.score > 0.9
    here, there = pair.regions[0]
    lines = ADA.splitlines()
    assert lines[here.lines[0] - 1].strip().startswith("if total <= 0")
    assert here.lines[1] - here.lines[0] > 10 and here.path == there.path == "pool.py"


def test_a_copy_in_another_order_and_another_file_is_found() -> None:
    parts = ADA.split("    def ")
    moved = "    def ".join([parts[0], parts[3].partition("\n\n\ndef")[0] + "\n\n", *parts[1:3]])
    handed_out = {STARTER.encode()}
    here = prints.read("ada", {"pool.py": ADA.encode()}, handed_out)
    there = prints.read("copy", {"deep/er.py": renamed(moved).encode()}, handed_out)
    found = pairs.compare([here, there], prints.all_grams(handed_out))
    assert found.pairs[0].score > 0.7
    assert {b.path for _, b in found.pairs[0].regions} == {"deep/er.py"}


def test_half_a_copy_is_found() -> None:
    first, _, _ = renamed(ADA).partition("    def give_back")
    rest = CY[CY.index("    def give_back") :]
    found = compared({"ada": ADA, "half": first + rest, "bob": BOB})
    assert names(found) == [("ada", "half")]


@pytest.mark.parametrize("others", [("ADA", "BOB"), ("ADA", "CY"), ("BOB", "CY")])
def test_two_people_who_solved_the_same_task_do_not_stand_out(others: tuple[str, str]) -> None:
    texts = {"ADA": ADA, "BOB": BOB, "CY": CY}
    assert compared({name: texts[name] for name in others}).pairs == []


def test_the_starter_alone_makes_nobody_alike() -> None:
    found = compared(dict.fromkeys("abcd", STARTER))
    assert found.pairs == [] and found.compared == 6


def test_bodies_that_were_handed_out_do_not_count() -> None:
    touched = {name: f"# {name}\n{BOB}\n" for name in "ab"}
    assert compared(touched, starter=BOB).pairs == []
    assert names(compared(touched)) == [("a", "b")]


def test_what_most_of_a_class_has_makes_nobody_alike() -> None:
    from_the_page = renamed(CY).replace("class Pool", "class Shown")
    class_of_six = {f"s{n}": from_the_page for n in range(4)} | {"x": ADA, "y": renamed(ADA)}
    assert names(compared(class_of_six)) == [("x", "y")]


def test_a_class_in_which_all_are_somewhat_alike_has_a_higher_bound() -> None:
    assert pairs._chance([0.5, 0.52, 0.48] * 5 + [0.97]) == (0.5, pytest.approx(0.58))
    assert pairs._chance([0.9]) == (0.9, pairs.LEAST_SHARE)


def test_interface_lines_and_names_do_not_count() -> None:
    source = b'''@decorated
import os
from a import (
    b,
)
class A(B):
    """Doc."""
    field: int
    def f(self, x: int) -> int:
        """Doc."""
        return x.size + g(x.size()) * 3  # why
'''
    kinds = [token.kind for token in tokens(source)]
    assert " ".join(kinds) == "return n . a + c ( n . m ( ) ) * 1 ;"
    assert {token.line for token in tokens(source)} == {11}


@pytest.mark.parametrize(
    "text", [b"def f(:\n  (((", b"\xff\xfe", b"x = '''", b"\x00", b"  x\n y\n"]
)
def test_a_file_that_is_no_python_is_read_as_far_as_it_goes(text: bytes) -> None:
    good = b"x = 1\n"
    assert len(tokens(good + text)) >= 0


def test_the_page_shows_both_sides_and_escapes_them() -> None:
    sneaky = renamed(ADA).replace("holds nothing", "</pre><script>alert(1)</script>\x1b")
    found = compared({"<b>ada": ADA, "copy": sneaky})
    sources = {"<b>ada": {"pool.py": ADA.encode()}, "copy": {"pool.py": sneaky.encode()}}
    page = report.as_page(found, sources, ["<i>cy is left out"])
    assert "a place to look, not a verdict" in page
    assert "<script" not in page and "<b>ada" not in page and "<i>cy" not in page
    assert "\x1b" not in page and "&lt;script&gt;" in page


def test_the_command_tells_pairs_and_who_is_left_out(
    made_up: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    golden: Callable[[str, str], None],
) -> None:  # fmt: skip
    folder = tmp_path / "handed-in"
    for name, text in {"ada": ADA, "bob": BOB, "copy": renamed(ADA)}.items():
        (folder / name / "minisgl").mkdir(parents=True)
        (folder / name / "minisgl/pool.py").write_text(text)
    (folder / "cy.zip").write_bytes(b"no zip")
    page = tmp_path / "alike.html"
    words = ["--root", str(made_up.root), "similar", "--submissions", str(folder)]
    assert main([*words, "--chapters", "01-02", "--html", str(page)]) == 0
    golden("similar", capsys.readouterr().out)
    assert "minisgl/pool.py" in page.read_text()


def test_a_range_of_chapters_that_runs_backwards_is_refused(
    made_up: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--root", str(made_up.root), "similar", "--submissions", str(tmp_path)]
    assert main([*words, "--chapters", "02-01"]) == 2
    assert "the first one comes after the last one" in capsys.readouterr().err
