"""Batches of random rows and parameters, beside the distribution of chapter 06's tests."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import test_ch06_sampler as sampler

logits = st.lists(
    st.floats(-12, 12, width=32) | st.just(-math.inf), min_size=6, max_size=6, unique=True
).filter(lambda row: any(x > -math.inf for x in row))
params = st.fixed_dictionaries(
    {"temperature": st.floats(0.2, 5.0), "top_k": st.integers(1, 8) | st.just(-1),
     "top_p": st.floats(0.05, 0.99) | st.just(1.0)}
)  # fmt: skip


def is_on_an_edge(row: sampler.Row) -> bool:
    """Whether rounding may decide which of two tokens is better, or if top_p keeps one more."""
    scores, given = row
    if (np.diff(sorted(x for x in scores if x > -math.inf)) < 1e-4).any():
        return True
    left = sampler.distribution(scores, given["temperature"], given["top_k"])
    sums = np.cumsum(sorted(left, reverse=True))
    return given["top_p"] < 1.0 and bool((abs(sums - given["top_p"]) < 1e-5).any())


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.lists(st.tuples(logits, params), min_size=1, max_size=4))
def test_each_row_of_a_batch_is_drawn_from_its_own_distribution(rows: list[sampler.Row]) -> None:
    assume(not any(map(is_on_an_edge, rows)))
    sampler.check(rows, sampler.counts(rows), atol=1.01)
