"""Every planted fault is caught, and the same check passes without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steplib import faults, models
from steplib.book import Book
from steplib.faults import Fault, Planter
from steplib.oracle import Oracle
from steplib.warm import Warm

FAULTS = faults.load(Path(__file__).with_name("planted.toml"))


@pytest.fixture(scope="module")
def planter() -> Iterator[Planter]:
    book = Book.load()
    with Warm(models.models_dir()) as warm:
        yield Planter(book, Oracle(book.root), warm, models.models_dir())


_clean: set[tuple[int, str, tuple[str, ...]]] = set()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))
def test_planted(fault: Fault, planter: Planter) -> None:
    missing = [name for name in fault.models if not models.present(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} isn't here (python tools/steps.py models make)")
    check = (fault.chapter, fault.caught_by, fault.models)
    if check not in _clean:
        for result in planter.clean(fault):
            assert result.is_passed, f"without the fault: {result.findings or result.summary}"
        _clean.add(check)
    for result in planter.caught(fault):
        assert not result.is_passed, f"{fault.name} was not caught: {result.summary}"
        assert result.verdict == "failed", f"{fault.name} broke the code: {result.verdict}"
