"""Your predictions of what a budget does to a load; replace the four bodies."""

from __future__ import annotations

Prompts = list[tuple[int, int]]


def batches(budget: int, prompts: Prompts) -> list[dict[int, int]]:
    """For each prefill batch the tokens that it computes of each of its requests."""
    raise NotImplementedError("exercise 10: predict the tokens of each batch")


def phases(budget: int, prompts: Prompts) -> str:
    """The steps up to the last prompt's end: P is a prefill batch, D a decode step."""
    raise NotImplementedError("exercise 10: predict the steps")


def new_pages(page_size: int, budget: int, input_len: int) -> list[int]:
    """How many pages each chunk of a prompt takes."""
    raise NotImplementedError("exercise 10: predict the pages that each chunk takes")


def waits(
    num_pages: int, page_size: int, budget: int, first: tuple[int, int], second: tuple[int, int]
) -> bool:
    """Whether the second request must wait when the first one's prompt is completed."""
    raise NotImplementedError("exercise 10: predict who has to wait")
