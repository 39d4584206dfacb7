"""What a chapter's reader starts from: its files without bodies, all others whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from steplib import bodies, symbols
from steplib.context import test_files
from steplib.signatures import Function, attributes
from steplib.stubs import fingerprints
from steplib.symbols import Definition, is_public

if TYPE_CHECKING:
    from steplib.book import Book

_WIDTH = 100


@dataclass(frozen=True)
class Starter:
    """One file as the reader gets it. tasks: the names of the bodies that are to be written."""

    text: str
    tasks: tuple[str, ...] = ()


def starters(book: Book, number: int) -> dict[str, Starter]:
    """A starter for each file that the chapter creates or modifies, by path."""
    chapter, files, before = book.chapter(number), book.reference(number).files, book.before(number)
    asked_for = _asked_for(book, number)
    found = {}
    for path in (*chapter.manifest.creates, *chapter.manifest.modifies):
        text = files[path].text()
        old = before[path].text() if files[path].mark == "modified" else None
        is_python = path.endswith(".py")
        found[path] = starter(number, path, text, old, asked_for) if is_python else Starter(text)
    return found


def _asked_for(book: Book, number: int) -> frozenset[str]:
    """What main and tests speak of, and what one file of the tree imports from another."""
    chapter = book.chapter(number)
    beside = [file for file in (chapter.main, *test_files(book, chapter)) if file.is_file()]
    texts = [file.read_text(encoding="utf-8") for file in beside]
    files = book.reference(number).files
    trees = [file.text() for path, file in files.items() if path.endswith(".py")]
    spoken_of = [_names(text) for text in texts] + [_imported(text) for text in [*texts, *trees]]
    return frozenset().union(*spoken_of)


def contents(book: Book, number: int) -> dict[str, bytes]:
    """Every file of the chapter's tree, its own as starters."""
    whole = {path: file.data for path, file in book.reference(number).files.items()}
    return whole | {path: it.text.encode() for path, it in starters(book, number).items()}


def starter(
    number: int,
    path: str,
    text: str,
    before: str | None = None,
    asked_for: frozenset[str] = frozenset(),
) -> Starter:
    """The file without what is to be written.

    before: the form of the chapter before, whose symbols stay as they are. What is private and new
    goes, unless what stays speaks of it, or it is one of the names that are asked for elsewhere.
    What is private and was there before is a body to write when the chapter changes it.
    """
    source = _Source(number, path, text, before or "", asked_for)
    while True:
        found = source.without_bodies()
        spoken_of = source.gone & _names(found.text)
        if not spoken_of:
            return found
        source.gone -= spoken_of


@dataclass
class _Source:
    """One file. gone: the names, without their class, of private symbols that are left out."""

    number: int
    path: str
    text: str
    before: str
    asked_for: frozenset[str]
    gone: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.kept, self.known = set(fingerprints(self.before)), set(symbols.symbols(self.before))
        self.symbols = symbols.symbols(self.text)
        private = [symbol for symbol in self.symbols.values() if self._is_new_and_private(symbol)]
        self.gone = {_last(symbol.name) for symbol in private} - self.asked_for

    def without_bodies(self) -> Starter:
        """Bottom up, so that the lines above keep their numbers."""
        text, tasks = self.text, []
        items: list[bodies.Symbol | symbols.Symbol] = [*self._stubs(), *self._removed()]
        for item in sorted(items, key=_first, reverse=True):
            if isinstance(item, bodies.Symbol):
                tasks.append(item.name)
                text = item.stubbed(text, self._statement(item))
            else:
                text = _without(text, item)
        return Starter(text.strip("\n") + "\n" if text.strip() else text, tuple(tasks[::-1]))

    def _is_new_and_private(self, symbol: symbols.Symbol) -> bool:
        is_inside = "." in symbol.name
        if is_public(symbol.name) or symbol.name in self.known:
            return False
        return isinstance(symbol.node, Definition) or not is_inside

    def _is_unchanged(self, name: str) -> bool:
        prefix = name[: name.rfind(".") + 1]
        return (prefix, ast.dump(self.symbols[name].node)) in self.kept

    def _is_gone(self, name: str) -> bool:
        """Whether the symbol, or a class around it, is left out."""
        parts = name.split(".")
        around = [".".join(parts[: count + 1]) for count in range(len(parts))]
        return any(
            _last(part) in self.gone and self._is_new_and_private(self.symbols[part])
            for part in around
        )

    def _removed(self) -> Iterator[symbols.Symbol]:
        for name, symbol in self.symbols.items():
            outer = name.rpartition(".")[0]
            if self._is_gone(name) and not (outer and self._is_gone(outer)):
                yield symbol

    def _stubs(self) -> Iterator[bodies.Symbol]:
        rows = self.text.split("\n")
        for symbol in bodies.symbols(self.path, self.text):
            if symbol.is_class or self._is_unchanged(symbol.name) or self._is_gone(symbol.name):
                continue
            first, last = symbol.lines
            while rows[first - 2].strip().startswith("#"):  # a comment on the body's first line
                first -= 1
            yield replace(symbol, lines=(first, last))

    def _statement(self, symbol: bodies.Symbol) -> str:
        node, pad = self.symbols[symbol.name].node, " " * symbol.column
        assert isinstance(node, Function)
        sets = list(attributes(node)) if node.name == "__init__" else []
        notes = [f"# it sets {line.removesuffix(' = ...')}" for line in sets]
        where, what = f"chapter {self.number:02d}, {self.path}: ", f"write {symbol.name}"
        statement = f'raise NotImplementedError("{where}{what}")'
        if len(pad + statement) > _WIDTH:
            parts = (f'    "{where}"', f'    "{what}"', ")")
            statement = f"\n{pad}".join(["raise NotImplementedError(", *parts])
        after = ["yield  # it is a generator"] if _is_generator(node) else []
        return f"\n{pad}".join([*notes, statement, *after])


def _without(text: str, symbol: symbols.Symbol) -> str:
    """The text without the symbol and the blank lines before it."""
    rows, first = text.split("\n"), symbol.first
    while first > 1 and not rows[first - 2].strip():
        first -= 1
    return "\n".join([*rows[: first - 1], *rows[symbol.last :]])


def _names(text: str) -> set[str]:
    """Every name and attribute that the text speaks of."""
    nodes = list(ast.walk(ast.parse(text)))
    loaded = {node.id for node in nodes if isinstance(node, ast.Name)}
    return loaded | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _imported(text: str) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in nodes for alias in node.names}


def _is_generator(node: Function) -> bool:
    pending: list[ast.AST] = list(node.body)
    while pending:
        inner = pending.pop()
        if isinstance(inner, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(inner, Definition | ast.Lambda):
            pending += ast.iter_child_nodes(inner)
    return False


def _first(item: bodies.Symbol | symbols.Symbol) -> int:
    return item.lines[0] if isinstance(item, bodies.Symbol) else item.first


def _last(name: str) -> str:
    return name.rpartition(".")[2]
