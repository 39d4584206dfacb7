"""One mutant: its place, its two names, and the text with it in place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from steplib.mutation.kinds import KINDS, Edits
from steplib.mutation.places import Place, places
from steplib.mutation.source import Source
from steplib.paths import sha256


@dataclass(frozen=True)
class Mutant:
    """A wrong change of one place. occurrence: among those of the symbol that read the same.

    is_at_import: it runs when the module is imported, and not in a function. statement: its lines.
    """

    source: Source
    kind: str
    symbol: str
    edits: Edits
    is_at_import: bool
    statement: tuple[int, int]
    occurrence: int = 0

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def _span(self) -> tuple[int, int]:
        return min(e.start for e in self.edits), max(e.end for e in self.edits)

    @cached_property
    def lines(self) -> tuple[int, int]:
        """The first and the last line that it changes."""
        return self.source.line(self._span[0]), self.source.line(self._span[1])

    @property
    def around(self) -> set[int]:
        """The lines of the statement that it stands in, of which coverage may name any."""
        return set(range(self.statement[0], self.statement[1] + 1))

    @cached_property
    def text(self) -> str:
        """The whole file with the mutant in it; every other line keeps its number."""
        return self.source.edited(self.edits)

    @cached_property
    def before(self) -> str:
        """The lines that it changes, as one."""
        return self._joined(self.source.text)

    @cached_property
    def after(self) -> str:
        return self._joined(self.text)

    def _joined(self, text: str) -> str:
        first, last = self.lines
        return " ".join(" ".join(text.split("\n")[first - 1 : last]).split())

    @cached_property
    def id(self) -> str:
        """Names it in this very form of the file."""
        column = self.source.column(self._span[0])
        digest = sha256(f"{self.source.text}\0{self.edits}".encode())[:8]
        return f"{self.path}:{self.lines[0]}:{column}:{self.kind.replace(' ', '-')}:{digest}"

    @property
    def name(self) -> tuple[str, str, str, str, int]:
        """Names it also when other lines of the file change."""
        return self.path, self.symbol, self.before, self.after, self.occurrence

    def is_sound(self) -> bool:
        """Whether it is Python and something else than before."""
        try:
            return ast.dump(ast.parse(self.text)) != ast.dump(ast.parse(self.source.text))
        except SyntaxError:
            return False


def mutants(source: Source) -> list[Mutant]:
    """Every mutant of a file, in order of its text."""
    found = sorted(_mutants(source), key=lambda m: (m._span, m.kind, m.after))
    seen: Counter[tuple[str, ...]] = Counter()
    numbered = []
    for mutant in found:
        same = (mutant.symbol, mutant.before, mutant.after)
        numbered.append(replace(mutant, occurrence=seen[same]))
        seen[same] += 1
    return numbered


def _mutants(source: Source) -> Iterator[Mutant]:
    for place in places(ast.parse(source.text)):
        for kind, edits_of in KINDS.items():
            for edits in edits_of(source, place):
                where = _statement(place)
                yield Mutant(source, kind, place.symbol, edits, _is_at_import(place), where)


def _statement(place: Place) -> tuple[int, int]:
    """First and last line of the statement around a place; of a compound one only its head."""
    node = next(n for n in (place.node, *reversed(place.parents)) if isinstance(n, ast.stmt))
    body = getattr(node, "body", None)
    last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
    return node.lineno, last or node.lineno


def _is_at_import(place: Place) -> bool:
    """In no function's body; a default is worked out when its function is defined."""
    around = [*place.parents, place.node]
    for outer, inner in zip(around, around[1:], strict=False):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) and inner in outer.body:
            return False
    return True
