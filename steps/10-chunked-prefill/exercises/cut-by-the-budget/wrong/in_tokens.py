"""Believes that the promise is counted in tokens."""

from __future__ import annotations

Prompts = list[tuple[int, int]]


def batches(budget: int, prompts: Prompts) -> list[dict[int, int]]:
    """For each prefill batch the tokens that it computes of each of its requests."""
    line = [i for i, (length, cached) in enumerate(prompts) for _ in range(length - cached)]
    parts = [line[start : start + budget] for start in range(0, len(line), budget)]
    return [{i: part.count(i) for i in part} for part in parts]


def phases(budget: int, prompts: Prompts) -> str:
    """The steps up to the last prompt's end: P is a prefill batch, D a decode step."""
    left = [length - cached for length, cached in prompts]
    steps, is_owed = "", False
    for batch in batches(budget, prompts):
        if is_owed and not all(left):
            steps, is_owed = steps + "D", False
        for i, count in batch.items():
            left[i] -= count
        steps += "P"
        is_owed = is_owed or any(left[i] for i in batch)
    return steps


def new_pages(page_size: int, budget: int, input_len: int) -> list[int]:
    """How many pages each chunk of a prompt takes."""
    cuts = [*range(0, input_len, budget), input_len]
    pages = [-(-cut // page_size) for cut in cuts]
    return [end - start for start, end in zip(pages, pages[1:], strict=False)]


def waits(
    num_pages: int, page_size: int, budget: int, first: tuple[int, int], second: tuple[int, int]
) -> bool:
    """Whether the second request must wait when the first one's prompt is completed."""
    promised = sum(first) + sum(second)
    return promised > num_pages * page_size
