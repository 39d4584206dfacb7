"""Each symbol that a chapter adds is replaced by a stub: its tests or its main must notice."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from runnable_book import CORE, MODEL, TEST, RunnableBook

from steplib import models
from steplib.bodies import symbols
from steplib.book import Book
from steplib.context import test_files as files_of
from steplib.paths import ROOT
from steplib.substitution import added_symbols, survivors
from steplib.warm import Warm

NUMBERS = range(1, 16 if os.environ.get("ALL_SYMBOLS") else 15)
"""Chapter 15 alone takes as long as all others: it is tried with ALL_SYMBOLS=1."""
TINY = "tiny-qwen3"
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)

FILE = '''\
from abc import abstractmethod


def plain(x):
    """Twice."""
    y = x
    return 2 * y


class Thing:
    """A thing."""

    size: int = 3

    @property
    def double(self):
        return 2 * self.size

    @abstractmethod
    def later(self):
        """Somebody else's."""
        raise NotImplementedError

    def nothing(self): ...

    def of_subclass(self):
        raise NotImplementedError(self)

    async def wait(
        self,
    ):
        return self


class Empty:
    """Nothing."""
'''


def test_every_symbol_with_a_body_is_found() -> None:
    found = [s.name for s in symbols("f.py", FILE)]
    assert found == ["plain", "Thing", "Thing.double", "Thing.wait"]


@pytest.mark.parametrize("name", ["plain", "Thing", "Thing.double", "Thing.wait"])
def test_a_stub_replaces_one_body_and_nothing_else(name: str) -> None:
    [symbol] = [s for s in symbols("f.py", FILE) if s.name == name]
    text = symbol.stubbed(FILE)
    assert text.count("this is a stub") == 1
    kept = {node.name for node in ast.parse(text).body if isinstance(node, DEFINITIONS)}
    assert kept == {"plain", "Thing", "Empty"}
    assert ("2 * self.size" in text) is (name not in ("Thing", "Thing.double"))


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    return RunnableBook(tmp_path / "book")


def survive(book: RunnableBook) -> list[str]:
    with Warm(preload=("json",)) as warm:
        found = survivors(book.load(), 1, [book.root / TEST], warm, book.root / "models" / MODEL)
    return [s.name for s in found]


def test_nothing_survives_in_the_sound_book(book: RunnableBook) -> None:
    assert [s.name for s in added_symbols(book.load(), 1)] == ["Loop", "Loop.__init__", "Loop.step"]
    assert survive(book) == []


def test_a_symbol_that_only_main_needs_is_missed_by_main(book: RunnableBook) -> None:
    book.write(TEST, "from pairs import equal\n")
    assert survive(book) == []


def test_an_idle_symbol_survives(book: RunnableBook) -> None:
    idle = "\n\ndef idle(x):\n    return x\n\n\nclass Unused:\n    def f(self):\n        return 1\n"
    book.write(CORE, book.read(CORE) + idle)
    book.refresh()
    assert survive(book) == ["idle", "Unused", "Unused.f"]


def test_a_symbol_whose_error_is_swallowed_survives(book: RunnableBook) -> None:
    book.write(CORE, book.read(CORE) + "\n\ndef extra():\n    return 1\n")
    swallow = "        self.ids = list(prompt)\n        try:\n            extra()\n"
    swallow += "        except Exception:\n            pass\n"
    book.edit(CORE, "        self.ids = list(prompt)\n", swallow)
    assert survive(book) == ["extra"]


def test_inert_symbols_are_left_to_their_chapter(book: RunnableBook) -> None:
    book.write(CORE, book.read(CORE) + "\n\ndef later():\n    return 1\n")
    inert = '\n[[inert]]\nsymbol = "minisgl/core.py::later"\nchapter = 5\n'
    manifest = "steps/01-core-data-structures/step.toml"
    book.write(manifest, book.read(manifest) + inert)
    book.refresh()
    assert survive(book) == []


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm(models.models_dir()) as process:
        yield process


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", NUMBERS)
def test_every_symbol_of_the_chapter_is_needed(number: int, warm: Warm) -> None:
    made = Book.load(ROOT)
    if number > made.last.number:
        pytest.skip(f"chapter {number:02d} is not written yet")
    if not models.present(TINY):
        pytest.skip(f"{TINY} isn't here (python tools/steps.py models make)")
    files = files_of(made, made.chapter(number))
    found = survivors(made, number, files, warm, models.folder(TINY))
    assert not found, "nothing notices a stub in place of " + ", ".join(map(str, found))
