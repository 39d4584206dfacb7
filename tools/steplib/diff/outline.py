"""A source as symbols that can be compared: what each is called by, and what it does.

Comments, docstrings and format are no part of what is compared.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import dedent

from steplib.symbols import Definition, Symbol, bound_names, symbols

IMPORTS, MODULE_LEVEL = "imports", "module level"
_TASK = re.compile(r"chapter \d\d, \S+: write ")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Item:
    """One symbol. head: decorators and signature. core: its body in a form to compare.

    text: the source as it is read, from line `line` of the file on. is_unwritten: a starter's body.
    """

    name: str
    head: str
    core: str
    text: str
    line: int = 1
    is_unwritten: bool = False

    @property
    def owner(self) -> str:
        """The class around it, or nothing."""
        return self.name.rpartition(".")[0]


def outline(source: str) -> dict[str, Item]:
    """Every symbol by its dotted name, then the imports and what else the module runs."""
    lines, module = source.split("\n"), ast.parse(source)
    found = {name: _item(symbol, lines) for name, symbol in symbols(source).items()}
    imports = "\n".join(sorted(_imports(module)))
    rest = list(_rest(module.body))
    text = "\n".join("\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in rest)
    first = rest[0].lineno if rest else 1
    found[IMPORTS] = Item(IMPORTS, "", imports, imports)
    found[MODULE_LEVEL] = Item(MODULE_LEVEL, "", _dump(rest), text, first)
    return found


def head(node: Definition) -> str:
    """Decorators and signature on as many lines, as Python itself would write them."""
    marks = "".join(f"@{ast.unparse(mark)}\n" for mark in node.decorator_list)
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, [*node.bases, *node.keywords]))
        return f"{marks}class {node.name}({bases})" if bases else f"{marks}class {node.name}"
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{marks}{word} {node.name}{signature(node)}"


def signature(node: _Function) -> str:
    """`(a, b=1) -> int`."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


def _item(symbol: Symbol, lines: list[str]) -> Item:
    node, name = symbol.node, symbol.name
    text = dedent(symbol.source(lines))
    if isinstance(node, ast.ClassDef):
        rest = list(_rest(node.body))
        shown = "\n".join(map(ast.unparse, rest))
        return Item(name, head(node), _dump(rest), shown, node.lineno)
    if isinstance(node, _Function):
        body = _working(node.body)
        return Item(name, head(node), _dump(body), text, symbol.first, _is_unwritten(body))
    kind = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    core = ast.dump(value) if value else ""
    return Item(name, name.rpartition(".")[2] + kind, core, text, symbol.first)


def _is_unwritten(body: list[ast.stmt]) -> bool:
    """Whether the body is a starter's: it raises an error that names chapter, file and task."""
    raised = body[0] if body else None
    if not isinstance(raised, ast.Raise) or not isinstance(raised.exc, ast.Call):
        return False
    if ast.unparse(raised.exc.func) != "NotImplementedError" or len(raised.exc.args) != 1:
        return False
    text = raised.exc.args[0]
    return isinstance(text, ast.Constant) and bool(_TASK.match(str(text.value)))


def _dump(body: Iterable[ast.stmt]) -> str:
    """The statements without their places, and without the docstrings inside them."""
    bare = [copy.deepcopy(node) for node in body]
    for inner in [inner for node in bare for inner in ast.walk(node)]:
        if isinstance(inner, Definition):
            inner.body = _working(inner.body)
    return "\n".join(map(ast.dump, bare))


def _working(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that do something: no docstring, no `pass`, no `...`."""
    return [node for node in body if not _is_idle(node)]


def _is_idle(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value is ... or isinstance(node.value.value, str)
    return isinstance(node, ast.Pass)


def _imports(module: ast.Module) -> Iterator[str]:
    for node in _flat(module.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                one = type(node)(**(dict(ast.iter_fields(node)) | {"names": [alias]}))
                yield ast.unparse(one)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _flat([*node.body, *node.orelse])


def _rest(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What is neither symbol nor import nor docstring."""
    for node in _working(body):
        if bound_names(node) or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.If) and not node.orelse and not list(_rest(node.body)):
            continue
        yield node
