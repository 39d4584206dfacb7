"""Your predictions of a radix tree's matches and nodes; replace the four bodies."""

from __future__ import annotations

Tokens = list[int]
Operation = tuple[str, Tokens]


def matched(page_size: int, inserted: list[Tokens], prompt: Tokens) -> int:
    """How many tokens of the prompt a match finds."""
    raise NotImplementedError("exercise 09: predict how many tokens are found")


def computed(page_size: int, inserted: list[Tokens], prompt: Tokens) -> int:
    """How many tokens of a new request's prompt must go through the model."""
    raise NotImplementedError("exercise 09: predict how many tokens are computed")


def count_nodes(page_size: int, operations: list[Operation]) -> int:
    """How many nodes the tree has after these operations, without the root."""
    raise NotImplementedError("exercise 09: predict the number of nodes")


def path(page_size: int, operations: list[Operation], prompt: Tokens) -> list[int]:
    """The lengths of the nodes that a match of the prompt goes through, from the top down."""
    raise NotImplementedError("exercise 09: predict the nodes of a path")
