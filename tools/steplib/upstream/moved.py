"""What moved between two states of the catalogue: files, symbols, signatures, lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from steplib.diff.heads import heads
from steplib.upstream.facts import Facts

Kind = Literal["added", "removed", "changed", "moved"]
Lines = tuple[int, int]


@dataclass(frozen=True)
class Move:
    """One file or symbol. before, after: its signature, or its lines when only these moved."""

    symbol: str
    kind: Kind
    before: str = ""
    after: str = ""

    @property
    def path(self) -> str:
        return self.symbol.partition("::")[0]


@dataclass(frozen=True)
class Moved:
    """All moves between two commits; a file that comes or goes counts once."""

    commits: tuple[str, str]
    moves: tuple[Move, ...]

    def of(self, kind: Kind) -> list[Move]:
        return [move for move in self.moves if move.kind == kind]


def moved(before: Facts, after: Facts) -> Moved:
    """By upstream's own paths, in the order of the new state; what is gone comes last."""
    old = {file["path"]: file for file in before["files"]}
    new = {file["path"]: file for file in after["files"]}
    found = [move for path, file in new.items() for move in _file(path, old.get(path), file)]
    found += [Move(path, "removed") for path in old if path not in new]
    return Moved((before["commit"], after["commit"]), tuple(found))


def _file(path: str, old: Facts | None, new: Facts) -> Iterator[Move]:
    if old is None:
        yield Move(path, "added")
        return
    if old["exports"] != new["exports"]:
        yield Move(f"{path}::__all__", "changed", _exports(old), _exports(new))
    if not path.endswith(".py"):
        return
    ours, theirs = _symbols(old), _symbols(new)
    for name, (head, lines) in theirs.items():
        symbol = f"{path}::{name}"
        if name not in ours:
            if _owner(name) not in theirs or _owner(name) in ours:  # else its class is told of
                yield Move(symbol, "added", after=head)
        elif ours[name][0] != head:
            yield Move(symbol, "changed", ours[name][0], head)
        elif ours[name][1] != lines:
            yield Move(symbol, "moved", _span(ours[name][1]), _span(lines))
    for name, (head, _) in ours.items():
        if name not in theirs and not (_owner(name) in ours and _owner(name) not in theirs):
            yield Move(f"{path}::{name}", "removed", before=head)


def _symbols(file: Facts) -> dict[str, tuple[str, Lines]]:
    """Signature and lines of each symbol by dotted name; a field has none of its own."""
    lines = dict(_lines(file["symbols"], ""))
    return {name: (head, lines.get(name, (0, 0))) for name, head in heads(file).items()}


def _lines(symbols: list[dict[str, Any]], prefix: str) -> Iterator[tuple[str, Lines]]:
    for symbol in symbols:
        yield prefix + symbol["name"], (symbol["line"], symbol["end_line"])
        yield from _lines(symbol.get("methods", []), f"{symbol['name']}.")


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _exports(file: Facts) -> str:
    return "no __all__" if file["exports"] is None else f"__all__ = {file['exports']}"


def _span(lines: Lines) -> str:
    return f"{lines[0]}-{lines[1]}" if lines[1] > lines[0] else str(lines[0])
