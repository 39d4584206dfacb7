"""Takes the last token off what was found, not off what is looked up."""

from __future__ import annotations

Tokens = list[int]
Operation = tuple[str, Tokens]


def shared(page_size: int, one: Tokens, other: Tokens) -> int:
    """How many tokens two sequences have in common, in whole pages."""
    pages = 0
    while (end := (pages + 1) * page_size) <= min(len(one), len(other)):
        if one[end - page_size : end] != other[end - page_size : end]:
            break
        pages += 1
    return pages * page_size


def matched(page_size: int, inserted: list[Tokens], prompt: Tokens) -> int:
    """How many tokens of the prompt a match finds."""
    return max((shared(page_size, tokens, prompt) for tokens in inserted), default=0)


def computed(page_size: int, inserted: list[Tokens], prompt: Tokens) -> int:
    """How many tokens of a new request's prompt must go through the model."""
    return len(prompt) - min(matched(page_size, inserted, prompt), len(prompt) - 1)


def ends(page_size: int, operations: list[Operation]) -> set[tuple[int, ...]]:
    """The tokens from the root to the end of a node, for each node."""
    inserted: list[Tokens] = []
    found = set()
    for kind, tokens in operations:
        found.add(tuple(tokens[: matched(page_size, inserted, tokens)]))
        if kind == "insert":
            found.add(tuple(tokens[: len(tokens) // page_size * page_size]))
            inserted.append(tokens)
    return found - {()}


def count_nodes(page_size: int, operations: list[Operation]) -> int:
    """How many nodes the tree has after these operations, without the root."""
    return len(ends(page_size, operations))


def path(page_size: int, operations: list[Operation], prompt: Tokens) -> list[int]:
    """The lengths of the nodes that a match of the prompt goes through, from the top down."""
    found = ends(page_size, [*operations, ("match", prompt)])
    stops = sorted(len(end) for end in found if end == tuple(prompt[: len(end)]))
    return [stop - start for start, stop in zip([0, *stops], stops, strict=False)]
