"""data/differences.toml: every place where our interface is not upstream's, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steplib.comparison import Deviation, deviations, symbols
from steplib.errors import Problem, UserError
from steplib.paths import DATA
from steplib.records import read_toml, record

if TYPE_CHECKING:
    from steplib.book import Book

CHECK = "interface"
KINDS = ("cpu", "fault", "simplification", "design")
_LISTING = "tools/steplib/data/differences.toml"


@dataclass(frozen=True)
class Difference:
    """An explained difference: why it is there, and the test or page that shows it.

    `behavior`: the interface is the same, and the difference lies in what the symbol does.
    """

    symbol: str
    kind: str
    text: str
    shown_by: str
    behavior: bool = False


@dataclass(frozen=True)
class Pending:
    """Symbols of modules that are there already, which a later chapter brings."""

    chapter: int
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """data/differences.toml."""

    difference: tuple[Difference, ...] = ()
    pending: tuple[Pending, ...] = ()

    def explains(self, symbol: str) -> bool:
        """Whether the listing has a difference for this symbol."""
        return any(entry.symbol == symbol for entry in self.difference)

    def promised(self, symbol: str) -> int | None:
        """The later chapter that is to bring this symbol."""
        return next((p.chapter for p in self.pending if symbol in p.symbols), None)


def load() -> Listing:
    """The listing; UserError for an entry of no known kind."""
    listing = record(Listing, read_toml(DATA / "differences.toml", _LISTING), _LISTING)
    for entry in listing.difference:
        if entry.kind not in KINDS:
            raise UserError(
                f'{_LISTING}: "{entry.symbol}" has kind "{entry.kind}"; '
                f"it must be one of {', '.join(KINDS)}."
            )
    return listing


def problems(book: Book, wanted: int | str, listing: Listing) -> list[Problem]:
    """What differs in the chapter's tree and is not listed; only the last must be complete."""
    tree = book.tree(wanted)
    is_last = tree.chapter.number == book.last.number
    return [
        _unlisted(deviation)
        for deviation in deviations(tree)
        if not listing.explains(deviation.symbol)
        and (
            deviation.kind != "missing" or (is_last and not _is_promised(book, listing, deviation))
        )
    ]


def stale_entries(book: Book, listing: Listing) -> Iterator[Problem]:
    """Entries for what does not differ in any tree or is not there, and promises that are kept."""
    found = [deviations(book.tree(chapter.number)) for chapter in book.chapters]
    differing = {deviation.symbol for tree in found for deviation in tree}
    missing = {deviation.symbol for deviation in found[-1] if deviation.kind == "missing"}
    present = symbols(book.tree(book.last.number))
    for entry in listing.difference:
        if entry.symbol not in (present if entry.behavior else differing):
            message = "This entry explains a difference that is not there."
            yield Problem(CHECK, entry.symbol, message, f"Delete it from {_LISTING}.")
    for pending in listing.pending:
        for symbol in pending.symbols:
            if symbol not in missing:
                message = f"Chapter {pending.chapter:02d} was to bring this, and it is here."
                yield Problem(CHECK, symbol, message, f"Delete it from {_LISTING}.")


def _is_promised(book: Book, listing: Listing, deviation: Deviation) -> bool:
    chapter = listing.promised(deviation.symbol)
    return chapter is not None and chapter > book.last.number


def _unlisted(deviation: Deviation) -> Problem:
    message = f"This is not as upstream has it: {deviation.message}."
    mend = f"Make it equal, or explain it in {_LISTING}."
    return Problem(CHECK, deviation.symbol, message, mend)
