"""What a page shows of a program's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from steplib.normalize import is_same, normalized, without_folders


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("took 1.25 s", "took … s"),
        ("took 1.25s for 3 prompts", "took …s for 3 prompts"),
        ("12.5 tokens/s, 3 tokens", "… tokens/s, 3 tokens"),
        ("1,234.5 ms", "… ms"),
        ("1.5e-3 s", "… s"),
        ("cache:     81.5 tok/s", "cache:        … tok/s"),
        ("3.1x as fast", "…x as fast"),
        ("ratio 3.1 x", "ratio … x"),
        ("2 x 3", "… x 3"),
        ("16 slots of size 4", "16 slots of size 4"),
        ("float32 stays", "float32 stays"),
        ("v2.5.1 stays", "v2.5.1 stays"),
        ("sha 0123456789abcdef0123", "sha …"),
        ("number 123456789012345", "number 123456789012345"),
        ("\x1b[32mgreen\x1b[0m", "green"),
        ("end   \n\n", "end"),
    ],
)
def test_numbers_that_change_are_masked(raw: str, shown: str) -> None:
    assert normalized(raw) == shown


def test_another_unit_is_masked_on_request() -> None:
    assert normalized("peak 540.1 MB") == "peak 540.1 MB"
    assert normalized("peak 540.1 MB", ["MB"]) == "peak … MB"


def test_a_padded_column_keeps_its_width() -> None:
    assert len(normalized("a    9.5 s|")) == len(normalized("a   10.5 s|")) == len("a    9.5 s|")


def test_folders_are_called_by_their_names_longest_first() -> None:
    folders = {Path("/home/me/book"): ".", Path("/home/me/book/models"): "models"}
    text = "/home/me/book/models/tiny and /home/me/book/x"
    assert without_folders(text, folders) == "models/tiny and ./x"


def test_blanks_are_no_difference() -> None:
    assert is_same("a   … s", "a … s")
    assert not is_same("a … s", "b … s")
