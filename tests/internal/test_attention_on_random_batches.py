"""The torch backend on random batches, beside the formulas of chapter 05's tests."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import test_ch05_attention as formulas
import test_ch05_windows as windows
from pairs import close, equal


def spans(longest: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """(cached, total) tokens of one to five requests."""
    span = st.integers(1, longest).flatmap(
        lambda total: st.tuples(st.integers(0, total - 1), st.just(total))
    )
    decode = st.integers(1, longest).map(lambda total: (total - 1, total))
    return st.lists(span, min_size=1, max_size=5) | st.lists(decode, min_size=1, max_size=5)


page_sizes = st.sampled_from([1, 2, 4, 16])
heads = st.sampled_from([(2, 1), (3, 3), (4, 2), (6, 2)])
cases = st.tuples(spans(40), page_sizes, heads).map(lambda drawn: formulas.Case(*drawn))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(cases, st.integers(0, 1000))
def test_each_new_token_gets_what_the_formula_says(case: formulas.Case, seed: int) -> None:
    got = formulas.run(formulas.prepared(seed, case)).tolist()
    close(got, formulas.expected(seed, case), 1e-5, f"{case} with seed {seed}")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(spans(windows.DIM), st.integers(1, 20), st.integers(0, 1000))
def test_each_new_token_sees_the_keys_of_its_window(
    batch: list[windows.Span], window: int, seed: int
) -> None:
    [got] = windows.seen(seed, batch, window)
    equal(got, windows.sees(batch, window), f"{batch} with a window of {window}, seed {seed}")
