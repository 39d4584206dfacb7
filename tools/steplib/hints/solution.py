"""The book's own bodies for a task, with the private helpers that they call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from steplib import symbols

if TYPE_CHECKING:
    from steplib.book import Book
    from steplib.hints.tasks import Task
    from steplib.starter import Starter


def solution(book: Book, number: int, task: Task, starters: dict[str, Starter]) -> str:
    """The source of the task's symbols in the tree of chapter `number`, file by file."""
    parts = []
    for path in task.paths:
        text = book.reference(number).files[path].text()
        pairs = [symbol.partition("::") for symbol in task.symbols]
        names = [name for file, _, name in pairs if file == path]
        if "" in names:
            parts.append(f"# {path}\n\n{text.strip()}")
        else:
            parts.append(f"# {path}\n\n{_bodies(text, starters[path].text, names)}")
    return "\n\n\n".join(parts)


def _bodies(text: str, left: str, names: list[str]) -> str:
    """The symbols in the order of the file, and what they need that the starter leaves out."""
    known = symbols.symbols(text)
    gone = set(known) - set(symbols.symbols(left))
    wanted, pending = set(names), list(names)
    while pending:
        spoken_of = _spoken_of(known[pending.pop()].node)
        new = {name for name in gone - wanted if name.rpartition(".")[2] in spoken_of}
        wanted |= new
        pending += new
    inner = {name for name in wanted if any(name.startswith(f"{other}.") for other in wanted)}
    rows = text.split("\n")
    chosen = sorted((known[name] for name in wanted - inner), key=lambda symbol: symbol.first)
    return "\n\n".join(_headed(symbol, rows) for symbol in chosen)


def _headed(symbol: symbols.Symbol, rows: list[str]) -> str:
    """A method stands below a line that names its class."""
    around = symbol.name.rpartition(".")[0]
    head = f"    # in {around}\n" if around else ""
    return head + symbol.source(rows)


def _spoken_of(node: ast.stmt) -> set[str]:
    nodes = list(ast.walk(node))
    names = {inner.id for inner in nodes if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in nodes if isinstance(inner, ast.Attribute)}
