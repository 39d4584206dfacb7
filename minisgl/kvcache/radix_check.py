"""What must hold in a radix tree at any time, counted again from the tree itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .radix_cache import RadixPrefixCache, RadixTreeNode


def check(cache: RadixPrefixCache) -> None:
    """Raise RuntimeError that names what is wrong and where, if the tree contradicts itself."""
    nodes = list(cache.nodes())[1:]
    place = {node: i for i, node in enumerate(cache.order)}
    problems = chain(
        (f"{n} {wrong}" for n in nodes for wrong in _of_node(n, place, cache.page_size)),
        _of_slots(nodes, cache.page_size),
        _of_order(cache, nodes),
        _of_sizes(cache, nodes),
        _of_locks(nodes),
    )
    for problem in problems:
        raise RuntimeError(f"the radix tree is broken: {problem}")


def _of_node(node: RadixTreeNode, place: dict[RadixTreeNode, int], page_size: int) -> Iterator[str]:
    """Yield what is wrong with a node and its tie to its parent."""
    parent = node.parent
    if node.length == 0 or node.length % page_size:
        yield f"has {node.length} tokens, which isn't a number of whole pages"
    if len(node.value) != node.length:
        yield f"has {node.length} tokens, and {len(node.value)} slots"
    if parent.children.get(node.first_page) is not node:
        yield "isn't what its parent finds under its first page"
    if node.ref_count < 0 or (not parent.is_root() and node.ref_count > parent.ref_count):
        yield f"is locked {node.ref_count} times, its parent {parent.ref_count} times"
    if (node.ref_count == 0) != (node in place):
        yield f"is locked {node.ref_count} times; unlocked nodes, and no others, are in the order"
    if node in place and place[node] > place.get(parent, len(place)):
        yield "comes after its parent in the order of last use"


def _of_slots(nodes: list[RadixTreeNode], page_size: int) -> Iterator[str]:
    """Yield the slots that are no whole page, and those that two tokens have."""
    owners: dict[int, RadixTreeNode] = {}
    for node in nodes:
        slots = node.value.tolist()
        for i, slot in enumerate(slots):
            if slot in owners:
                yield f"slot {slot} is in {owners[slot]} and in {node}"
            owners[slot] = node
            if slot != slots[i - i % page_size] + i % page_size or (slot - i) % page_size:
                yield f"slot {slot} in {node} is out of its place in a page of {page_size}"


def _of_order(cache: RadixPrefixCache, nodes: list[RadixTreeNode]) -> Iterator[str]:
    """Yield the nodes of the order that aren't in the tree or were used later than the next."""
    known, last = set(nodes), 0
    for node in cache.order:
        if node not in known:
            yield f"{node} is in the order of last use, but not in the tree"
        if not last <= node.timestamp <= cache.tick:
            yield f"{node} was used at tick {node.timestamp}, the one before it at {last}"
        last = node.timestamp


def _of_sizes(cache: RadixPrefixCache, nodes: list[RadixTreeNode]) -> Iterator[str]:
    """Yield the counters that aren't what the nodes add up to."""
    protected = sum(node.length for node in nodes if node.ref_count > 0)
    evictable = sum(node.length for node in nodes if node.ref_count == 0)
    if (evictable, protected) != cache.size_info:
        yield (
            f"{evictable} tokens are evictable and {protected} locked, but the counters say "
            f"{cache.evictable_size} and {cache.protected_size}"
        )


def _of_locks(nodes: list[RadixTreeNode]) -> Iterator[str]:
    """Yield the nodes with fewer locks than their children, whose locks are theirs too."""
    for node in nodes:
        below = sum(child.ref_count for child in node.children.values())
        if node.ref_count < below:
            yield f"{node} is locked {node.ref_count} times, its children {below} times"
