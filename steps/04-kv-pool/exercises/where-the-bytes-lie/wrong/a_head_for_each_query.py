"""Believes that each query head has keys and values of its own in the pool."""

from __future__ import annotations


def token_bytes(pool: dict[str, int]) -> int:
    """Bytes of one token's keys, or of its values, in one layer."""
    return pool["query_heads"] * pool["head_dim"] * pool["itemsize"]


def smallest(pool: dict[str, int], lengths: list[int]) -> int:
    """Bytes of the smallest pool that holds requests of these lengths at once."""
    size = pool["page_size"]
    pages = sum(-(-length // size) for length in lengths)
    return 2 * pool["layers"] * pages * size * token_bytes(pool)


def written(
    pool: dict[str, int], kind: str, pages: list[int], cached: int, total: int
) -> list[tuple[int, int]]:
    """First byte and length of each piece of memory that a pass writes keys or values to."""
    size, token = pool["page_size"], token_bytes(pool)
    in_layer = pool["num_pages"] * size
    slots = [pages[position // size] * size + position % size for position in range(cached, total)]
    before = 0 if kind == "k" else pool["layers"]
    return [
        (((before + layer) * in_layer + first) * token, count * token)
        for layer in range(pool["layers"])
        for first, count in runs(slots)
    ]


def runs(slots: list[int]) -> list[tuple[int, int]]:
    """Slots that follow each other as pairs (first, how many), in the order of the memory."""
    found: list[tuple[int, int]] = []
    for slot in sorted(slots):
        if found and sum(found[-1]) == slot:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((slot, 1))
    return found
