"""The kinds of mutants: for a node, the edits that make it wrong in one way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from steplib.mutation.places import Place
from steplib.mutation.source import Edit, Source

Edits = tuple[Edit, ...]
_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: (r"\+", "-"), ast.Sub: ("-", "+"), ast.Mult: (r"\*", "//"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: (r"\*\*", "*"),
    ast.MatMult: ("@", "*"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: (r"\|", "&"), ast.BitXor: (r"\^", "&"),
    ast.And: (r"\band\b", "or"), ast.Or: (r"\bor\b", "and"),
    ast.Not: ("not", ""), ast.USub: ("-", ""), ast.Invert: ("~", ""),
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"), ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}  # fmt: skip
_EVEN = {"min", "max", "add", "mul", "minimum", "maximum", "equal", "gcd", "transpose"}
"""Functions that give the same for their arguments in either order."""


def operator(source: Source, place: Place) -> Iterator[Edits]:
    """`a + b` becomes `a - b`, `a and b` becomes `a or b`, `not a` becomes `a`."""
    match place.node:
        case ast.BinOp(left=left, op=op, right=right):
            yield from _swapped(source, op, left, right)
        case ast.AugAssign(target=target, op=op, value=value):
            yield from _swapped(source, op, target, value)
        case ast.BoolOp(op=op, values=values):
            for left, right in zip(values, values[1:], strict=False):
                yield from _swapped(source, op, left, right)
        case ast.UnaryOp(operand=ast.Constant()):
            return  # a negative number is one constant
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            old, new = _OPERATORS[type(op)]
            edit = source.word(old, source.start(place.node), source.start(operand), new)
            yield from [(edit,)] if edit else []


def _swapped(source: Source, op: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Edits]:
    old, new = _OPERATORS[type(op)]
    edit = source.word(old, source.end(left), source.start(right), new)
    yield from [(edit,)] if edit else []


def comparison(source: Source, place: Place) -> Iterator[Edits]:
    """`<` becomes `<=`, `==` becomes `!=`, and so on."""
    if not isinstance(place.node, ast.Compare):
        return
    sides = [place.node.left, *place.node.comparators]
    for op, left, right in zip(place.node.ops, sides, sides[1:], strict=False):
        old, new = _COMPARISONS[type(op)]
        edit = source.word(old, source.end(left), source.start(right), new)
        yield from [(edit,)] if edit else []


def off_by_one(source: Source, place: Place) -> Iterator[Edits]:
    """A whole number in a slice, in a range or in a sum, one more and one less."""
    node = place.node
    if _is_whole(node) and _is_edge(place):
        assert isinstance(node, ast.Constant) and isinstance(node.value, int)
        for value in (node.value + 1, node.value - 1):
            if value >= 0:
                yield (source.over(node, str(value)),)


def wrong_constant(source: Source, place: Place) -> Iterator[Edits]:
    """Another number, the other truth value, or another text where texts are compared."""
    node = place.node
    if not isinstance(node, ast.Constant) or (_is_whole(node) and _is_edge(place)):
        return
    if isinstance(node.value, bool):
        yield (source.over(node, str(not node.value)),)
    elif isinstance(node.value, int):
        yield (source.over(node, str(node.value + 1)),)
    elif isinstance(node.value, float):
        yield (source.over(node, repr(2 * node.value or 1.0)),)
    elif isinstance(node.value, str) and _is_compared(place):
        yield (source.over(node, repr(node.value + "?")),)


def _is_whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_edge(place: Place) -> bool:
    """Whether a number says where a slice, a range or a sum with it ends."""
    around = place.parents[-2] if isinstance(place.parent, ast.UnaryOp) else place.parent
    match around:
        case ast.Slice() | ast.BinOp(op=ast.Add() | ast.Sub()):
            return True
        case ast.AugAssign(op=ast.Add() | ast.Sub()):
            return True
        case ast.Call(func=ast.Name(id="range")):
            return True
    return False


def _is_compared(place: Place) -> bool:
    around = place.parent
    if isinstance(around, ast.Tuple | ast.List | ast.Set):
        around = place.parents[-2]
    return isinstance(around, ast.Compare | ast.MatchValue)


def dropped_statement(source: Source, place: Place) -> Iterator[Edits]:
    """A call, a deletion, or an assignment to what others see; a return gives None."""
    match place.node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Delete() | ast.AugAssign():
            yield (source.over(place.node, "pass"),)
        case ast.Assign(targets=targets) if any(map(_is_seen, targets)):
            yield (source.over(place.node, "pass"),)
        case ast.AnnAssign(target=target, value=ast.expr()) if _is_seen(target):
            yield (source.over(place.node, "pass"),)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "False"):
            yield (source.over(place.node, "return None"),)


def _is_seen(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return any(map(_is_seen, target.elts))
    return isinstance(target, ast.Attribute | ast.Subscript)


def swapped_arguments(source: Source, place: Place) -> Iterator[Edits]:
    """Two neighbors among a call's positional arguments change places."""
    if not isinstance(place.node, ast.Call) or _name(place.node.func) in _EVEN:
        return
    args = place.node.args
    for left, right in zip(args, args[1:], strict=False):
        texts = [source.segment(left), source.segment(right)]
        if texts[0] != texts[1] and not any(isinstance(a, ast.Starred) for a in (left, right)):
            spans = [(source.start(a), source.end(a)) for a in (left, right)]
            yield (Edit(*spans[0], texts[1]), Edit(*spans[1], texts[0]))


def _name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


def negated_condition(source: Source, place: Place) -> Iterator[Edits]:
    """`if a` becomes `if not (a)`, where no other kind does the same."""
    match place.node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            conditions = [test]
        case ast.comprehension(ifs=ifs):
            conditions = list(ifs)
        case ast.match_case(guard=ast.expr() as guard):
            conditions = [guard]
        case _:
            return
    for test in conditions:
        if not _is_negated_elsewhere(test):
            start, end = source.start(test), source.end(test)
            yield (Edit(start, start, "not ("), Edit(end, end, ")"))


def _is_negated_elsewhere(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return True
        case ast.Compare(ops=[op]):
            return isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn)
    return "TYPE_CHECKING" in ast.unparse(test)


KINDS: dict[str, Callable[[Source, Place], Iterator[Edits]]] = {
    "operator": operator,
    "comparison": comparison,
    "off by one": off_by_one,
    "wrong constant": wrong_constant,
    "dropped statement": dropped_statement,
    "swapped arguments": swapped_arguments,
    "negated condition": negated_condition,
}
