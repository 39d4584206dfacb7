"""Random operations on the radix cache, beside a dictionary from prefixes to slots."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from minisgl import core
from minisgl.kvcache.radix_cache import RadixCacheHandle, RadixPrefixCache

Prefix = tuple[int, ...]
"""The tokens from the start to the end of a page."""


class Model:
    """One entry a page: its slots, its last use, its locks, and whether a node ends there.

    The tree's nodes are the runs of pages between two ends, so that whole nodes can be evicted.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size, self.uses = page_size, 0
        self.slots: dict[Prefix, list[int]] = {}
        self.used: dict[Prefix, tuple[int, int]] = {}
        self.locks: dict[Prefix, int] = {}
        self.ends: set[Prefix] = set()

    def prefixes(self, ids: Prefix) -> list[Prefix]:
        return [ids[:end] for end in range(self.page_size, len(ids) + 1, self.page_size)]

    def cached(self, ids: Prefix) -> Prefix:
        """The longest cached prefix."""
        return max((p for p in self.prefixes(ids) if p in self.slots), key=len, default=())

    def match(self, ids: Prefix) -> Prefix:
        found = self.cached(ids)
        self.use(found)
        return found

    def use(self, ids: Prefix) -> None:
        """The deepest page of a use counts as the oldest."""
        self.uses += 1
        self.ends |= {ids} - {()}
        self.used |= {p: (self.uses, -len(p)) for p in self.prefixes(ids)}

    def insert(self, ids: Prefix, slots: list[int]) -> int:
        found, pages = self.cached(ids), self.prefixes(ids)
        for prefix in pages[len(found) // self.page_size :]:
            self.slots[prefix] = slots[len(prefix) - self.page_size : len(prefix)]
            self.locks[prefix] = 0
        if found and len(found) < len(ids):
            self.ends.add(found)
        self.use(pages[-1] if pages else ())
        return len(found)

    def lock(self, ids: Prefix, by: int) -> None:
        for prefix in self.prefixes(ids):
            self.locks[prefix] += by
        if by < 0:
            self.use(ids)

    def evict(self, size: int) -> list[int]:
        """Leaf by leaf, the longest unused first; each from its end up to the next node's."""
        gone: list[int] = []
        while len(gone) < size:
            unlocked = (p for p in self.slots if not self.locks[p])
            last = min(unlocked, key=lambda p: self.used[p])
            pages = self.prefixes(last)
            stays = max((i for i, p in enumerate(pages[:-1], 1) if p in self.ends), default=0)
            for prefix in pages[stays:]:
                gone += self.slots.pop(prefix)
                del self.used[prefix], self.locks[prefix]
            self.ends.remove(last)
        return gone

    @property
    def sizes(self) -> tuple[int, int]:
        """Evictable and protected tokens."""
        locked = sum(count > 0 for count in self.locks.values())
        return (len(self.slots) - locked) * self.page_size, locked * self.page_size

    def told(self, ids: Prefix) -> list[int]:
        return [slot for prefix in self.prefixes(ids) for slot in self.slots[prefix]]


prompts = st.lists(st.integers(0, 1), max_size=14).map(tuple)


class Radix(RuleBasedStateMachine):
    """A radix cache, its model, and the handles that are locked, with what each holds."""

    page_size: ClassVar[int]

    @initialize()
    def start(self) -> None:
        core._GLOBAL_CTX = None
        core.set_global_ctx(core.Context(self.page_size))
        self.cache = RadixPrefixCache(torch.device("cpu"))
        self.model = Model(self.page_size)
        self.locked: list[tuple[RadixCacheHandle, Prefix]] = []
        self.fresh = 0

    def ask(self, ids: Prefix) -> tuple[RadixCacheHandle, Prefix]:
        handle = self.cache.match_prefix(torch.tensor(ids, dtype=torch.int32)).cuda_handle
        assert isinstance(handle, RadixCacheHandle)
        return handle, self.model.match(ids)

    def agrees(self, handle: RadixCacheHandle, held: Prefix) -> None:
        assert handle.cached_len == len(held)
        assert handle.get_matched_indices().tolist() == self.model.told(held)

    @rule(ids=prompts)
    def match(self, ids: Prefix) -> None:
        self.agrees(*self.ask(ids))

    @rule(ids=prompts, wide=st.booleans())
    def insert(self, ids: Prefix, wide: bool) -> None:
        slots = list(range(self.fresh, self.fresh + len(ids)))
        self.fresh += 16
        tokens = torch.tensor(ids, dtype=torch.int64 if wide else torch.int32)
        row = torch.tensor(slots, dtype=torch.int32)
        result = self.cache.insert_prefix(tokens, row)
        row.fill_(-1)
        assert result.cached_len == self.model.insert(ids, slots)
        assert isinstance(result.handle, RadixCacheHandle)
        whole = len(ids) // self.page_size * self.page_size
        self.agrees(result.handle, ids[:whole])

    @rule(ids=prompts)
    def lock(self, ids: Prefix) -> None:
        handle, held = self.ask(ids)
        self.cache.lock_handle(handle)
        self.model.lock(held, 1)
        self.locked.append((handle, held))

    @precondition(lambda self: self.locked)
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        handle, held = self.locked.pop(data.draw(st.integers(0, len(self.locked) - 1)))
        self.cache.lock_handle(handle, unlock=True)
        if held:
            self.model.lock(held, -1)

    @rule(ids=prompts)
    def unlock_what_may_not_be_locked(self, ids: Prefix) -> None:
        handle, held = self.ask(ids)
        if held and not self.model.locks[held]:
            with pytest.raises(RuntimeError, match="isn't locked"):
                self.cache.lock_handle(handle, unlock=True)

    @rule(size=st.integers(0, 10))
    def evict(self, size: int) -> None:
        if size <= self.model.sizes[0]:
            assert self.cache.evict(size).tolist() == self.model.evict(size)
            return
        with pytest.raises(RuntimeError, match=f"only {self.model.sizes[0]}"):
            self.cache.evict(size)

    @rule()
    def evict_all_and_lock_what_is_gone(self) -> None:
        handle, held = self.ask(max(self.model.slots, key=len, default=()))
        size = self.model.sizes[0]
        assert self.cache.evict(size).tolist() == self.model.evict(size)
        if held and held not in self.model.slots:
            with pytest.raises(RuntimeError, match="match again"):
                self.cache.lock_handle(handle)

    @invariant()
    def the_tree_is_sound_and_as_large_as_the_model(self) -> None:
        self.cache.check_integrity()
        assert self.cache.size_info == self.model.sizes
        slots = [slot for page in self.model.slots.values() for slot in page]
        assert sorted(self.cache.all_indices().tolist()) == sorted(slots)

    @invariant()
    def what_is_locked_is_as_it_was(self) -> None:
        for handle, held in self.locked:
            self.agrees(handle, held)

    @invariant()
    def the_tree_splits_where_the_model_does(self) -> None:
        nodes = [node for node in self.cache.nodes() if not node.is_root()]
        found = {int(node.value[-1]) for node in nodes}
        assert found == {slots[-1] for p, slots in self.model.slots.items() if p in self.model.ends}


def machine(page_size: int) -> type[Radix]:
    return type(f"Radix{page_size}", (Radix,), {"page_size": page_size})


STEPS = settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=40)


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_the_radix_cache_is_its_model(page_size: int) -> None:
    run_state_machine_as_test(machine(page_size), settings=STEPS)
