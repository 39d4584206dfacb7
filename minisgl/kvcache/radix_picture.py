"""A radix tree as text for a terminal, and in the DOT language for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .radix_cache import RadixPrefixCache, RadixTreeNode

SHOWN = 6
"""Numbers of a node that are written out; of more, the first ones and the last one."""


def tree_text(cache: RadixPrefixCache) -> str:
    """Return one line a node, children below their parent; age: ticks since its last use."""
    lines = [_root_label(cache)]
    for node, is_last, bars in _walk(cache):
        rails = "".join("   " if bar else "│  " for bar in bars)
        label = " | ".join(_label(node, cache.tick))
        lines.append(f"{rails}{'└─ ' if is_last else '├─ '}{label}")
    return "\n".join(lines)


def tree_dot(cache: RadixPrefixCache) -> str:
    """Return a directed graph, with locked nodes in gray; nodes are numbered from the top down."""
    names = {cache.root_node: "n0"}
    lines = ["digraph radix {", "    node [shape=box];", f'    n0 [label="{_root_label(cache)}"];']
    for node, _, _ in _walk(cache):
        name = names[node] = f"n{len(names)}"
        label = r"\n".join(_label(node, cache.tick))
        look = ", style=filled, fillcolor=lightgray" if node.ref_count else ""
        lines.append(f'    {name} [label="{label}"{look}];')
        lines.append(f"    {names[node.parent]} -> {name};")
    return "\n".join([*lines, "}"])


def _walk(cache: RadixPrefixCache) -> Iterator[tuple[RadixTreeNode, bool, tuple[bool, ...]]]:
    """Go from the top down: each node, whether it is its parent's last child, and the same of
    those above it."""
    waiting = list(_children(cache.root_node, ()))
    while waiting:
        node, is_last, bars = waiting.pop()
        yield node, is_last, bars
        waiting += _children(node, (*bars, is_last))


def _children(
    node: RadixTreeNode, bars: tuple[bool, ...]
) -> Iterator[tuple[RadixTreeNode, bool, tuple[bool, ...]]]:
    """Yield the children in falling order of their tokens, as a stack wants them."""
    ordered = sorted(node.children.values(), key=_tokens, reverse=True)
    for i, child in enumerate(ordered):
        yield child, i == 0, bars


def _root_label(cache: RadixPrefixCache) -> str:
    evictable, protected = cache.size_info
    return f"{evictable + protected} tokens: {evictable} evictable, {protected} protected"


def _label(node: RadixTreeNode, tick: int) -> list[str]:
    """What is said of a node, part by part."""
    parts = [f"tokens {_short(_tokens(node))}", f"slots {_short(node.value.tolist())}"]
    locks = [f"locks {node.ref_count}"] if node.ref_count else []
    return [*parts, *locks, f"age {tick - node.timestamp}"]


def _tokens(node: RadixTreeNode) -> list[int]:
    """The node's key as token ids."""
    return memoryview(node.key).cast("i").tolist()


def _short(numbers: list[int]) -> str:
    """The numbers, at most SHOWN of them, and how many there are if that isn't all."""
    if len(numbers) <= SHOWN:
        return " ".join(map(str, numbers))
    first = " ".join(map(str, numbers[: SHOWN - 1]))
    return f"{first} ... {numbers[-1]} ({len(numbers)})"
