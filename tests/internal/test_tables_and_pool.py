"""Random sequences of operations on the tables and the pool, beside a plain model of each."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minisgl.kvcache.mha_pool import MHAKVCache
from minisgl.scheduler.table import TableManager

ROWS = 4


class Rows(RuleBasedStateMachine):
    """A table manager; the model is the set of rows that are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = TableManager(ROWS, torch.zeros(ROWS + 1, 8, dtype=torch.int32))
        self.taken: set[int] = set()

    @precondition(lambda self: len(self.taken) < ROWS)
    @rule()
    def allocate(self) -> None:
        row = self.manager.allocate()
        assert row not in self.taken and 0 <= row < ROWS
        self.taken.add(row)

    @precondition(lambda self: len(self.taken) == ROWS)
    @rule()
    def allocate_one_too_many(self) -> None:
        with pytest.raises(AssertionError, match="rows are taken"):
            self.manager.allocate()

    @rule(row=st.integers(-1, ROWS))
    def free(self, row: int) -> None:
        if row in self.taken:
            self.manager.free(row)
            self.taken.remove(row)
            return
        with pytest.raises(AssertionError, match=f"row {row}"):
            self.manager.free(row)

    @invariant()
    def the_rest_is_free(self) -> None:
        assert self.manager.available_size == ROWS - len(self.taken)


TestRows = Rows.TestCase
TestRows.settings = settings(derandomize=True, deadline=None, max_examples=100)

LAYERS, PAGES = 2, 3
stores = st.lists(
    st.tuples(st.integers(0, LAYERS - 1), st.sets(st.integers(0, 2 * PAGES - 1), min_size=1)),
    max_size=8,
)


@settings(derandomize=True, deadline=None)
@given(stores)
def test_each_slot_holds_what_was_stored_there_last(done: list[tuple[int, set[int]]]) -> None:
    pool = MHAKVCache(1, LAYERS, 2, PAGES, 2, torch.float32, torch.device("cpu"))
    model = torch.full((2, LAYERS, 2 * PAGES, 1, 2), -1.0)
    for layer in range(LAYERS):
        pool.k_cache(layer).fill_(-1.0)
        pool.v_cache(layer).fill_(-1.0)
    for number, (layer, slots) in enumerate(done):
        where = torch.tensor(sorted(slots), dtype=torch.int32)
        k = torch.arange(2.0 * len(slots)).view(-1, 1, 2) + 100 * number
        pool.store_kv(k, -k, where, layer)
        model[0, layer, where], model[1, layer, where] = k, -k
    for layer in range(LAYERS):
        assert torch.equal(pool.k_cache(layer).flatten(0, 1), model[0, layer])
        assert torch.equal(pool.v_cache(layer).flatten(0, 1), model[1, layer])
