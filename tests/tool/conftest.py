"""What the tests of the step tool share: a made-up book, and golden texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import golden as golden
from made_up_book import MadeUpBook


@pytest.fixture
def made_up(tmp_path: Path) -> MadeUpBook:
    """A sound book of three chapters."""
    return MadeUpBook(tmp_path / "book")
