"""Golden texts, for the tests of the step tool and those of grading."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str, str], None]:
    """Compare a text with tests/tool/golden/NAME.txt; UPDATE_GOLDEN=1 writes that file instead."""

    def compare(name: str, text: str) -> None:
        kept = GOLDEN / f"{name}.txt"
        got = text.replace(str(tmp_path), "FOLDER").rstrip("\n") + "\n"
        assert got.strip(), f"{name}: there is no text to keep"
        if os.environ.get("UPDATE_GOLDEN"):
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(got, encoding="utf-8")
        assert kept.is_file(), f"{kept} is missing; run the test once with UPDATE_GOLDEN=1"
        assert got == kept.read_text(encoding="utf-8")

    return compare
