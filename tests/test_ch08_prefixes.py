"""Chapter 08: what the manager asks of a prefix cache, shown on one that is a plain dictionary."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, public_bug, truth
from stub_engine import answer, said, stub_scheduler, user


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Pages:
    """A prefix cache of whole pages: tokens up to a page's end -> its slots. Locks are counted."""

    def __init__(self, page_size: int) -> None:
        self.size = page_size
        self.slots: dict[tuple[int, ...], list[int]] = {}
        self.locks: dict[tuple[int, ...], int] = {}

    def keys(self, tokens: list[int]) -> list[tuple[int, ...]]:
        ends = range(self.size, len(tokens) + 1, self.size)
        return [tuple(tokens[:end]) for end in ends]

    def handle(self, keys: list[tuple[int, ...]]) -> Any:
        from types import SimpleNamespace

        slots = ints([slot for key in keys for slot in self.slots[key]])
        length = len(keys) * self.size
        return SimpleNamespace(cached_len=length, get_matched_indices=lambda: slots, keys=keys)

    def match_prefix(self, input_ids: torch.Tensor) -> Any:
        from minisgl.kvcache import MatchResult

        keys = [key for key in self.keys(input_ids.tolist()) if key in self.slots]
        return MatchResult(self.handle(keys))

    def insert_prefix(self, input_ids: torch.Tensor, indices: torch.Tensor) -> Any:
        from minisgl.kvcache import InsertResult

        keys, size = self.keys(input_ids.tolist()), self.size
        known = sum(key in self.slots for key in keys)
        for i, key in enumerate(keys[known:], start=known):
            self.slots[key] = indices[i * size : (i + 1) * size].tolist()
            self.locks[key] = 0
        return InsertResult(known * size, self.handle(keys))

    def lock_handle(self, handle: Any, unlock: bool = False) -> None:
        for key in handle.keys:
            self.locks[key] += -1 if unlock else 1

    def evict(self, size: int) -> torch.Tensor:
        """The longest first, so that no page goes before those that follow it."""
        slots: list[int] = []
        for key in sorted(self.slots, key=len, reverse=True):
            if len(slots) < size and not self.locks[key]:
                slots += self.slots.pop(key)
        return ints(slots)

    @property
    def size_info(self) -> Any:
        from minisgl.kvcache import SizeInfo

        locked = sum(self.size for key in self.slots if self.locks[key])
        return SizeInfo(self.size * len(self.slots) - locked, locked)

    def all_indices(self) -> torch.Tensor:
        return ints([slot for slots in self.slots.values() for slot in slots])

    def check_integrity(self) -> None:
        assert min(self.locks.values(), default=0) >= 0, "unlocked more than locked"


def manager(num_pages: int, page_size: int) -> Any:
    from minisgl.scheduler.cache import CacheManager

    made = CacheManager(num_pages, page_size, torch.full((3, 32), -1).int(), type="naive")
    made.prefix_cache = Pages(page_size)
    return made


def running(made: Any, row: int, tokens: list[int]) -> Any:
    """A request in that row that starts with what is cached, and whose prompt is computed."""
    from minisgl.core import Req, SamplingParams
    from minisgl.scheduler.utils import PendingReq

    params = SamplingParams(max_tokens=4)
    handle = made.match_req(PendingReq(row, ints(tokens), params)).cuda_handle
    made.lock(handle)
    made.page_table[row, : handle.cached_len] = handle.get_matched_indices()
    req = Req(ints(tokens), row, handle.cached_len, 4, row, params, handle)
    made.allocate_paged([req])
    req.complete_one()
    return req


def state(made: Any, *reqs: Any) -> list[Any]:
    """Free pages, evictable and protected tokens; each page must have one owner."""
    made.check_integrity(reqs)
    return [made.free_slots.tolist(), *made.prefix_cache.size_info]


A, B = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9, 9, 9]


def probe_what_is_computed_is_offered_and_held_while_it_is_used(seed):
    made = manager(6, 4)
    req = running(made, 0, A)
    found = [state(made, req)]
    made.cache_req(req, finished=False)
    found.append([*state(made, req), req.cache_handle.cached_len])
    req.append_host(7)
    made.cache_req(req, finished=True)
    return [*found, state(made), made.available_size]


def judge_what_is_computed_is_offered_and_held_while_it_is_used(seed, got):
    free = [8, 12, 16, 20]
    equal(got[0], [free, 0, 0], "free pages, evictable, protected: a prompt of 6, pages of 4")
    equal(got[1], [free, 0, 4, 4], "when its full page is cached; the handle's length")
    equal(got[2], [[*free, 4], 4, 0], "when it is finished: the page that isn't full is free")
    equal(got[3], 24, "tokens that are available: all of them")


def probe_a_cached_prefix_is_used_but_for_the_last_token(seed):
    found = []
    for size, tokens in ((4, A[:4]), (4, A), (1, A), (2, A)):
        made = manager(24, size)
        made.cache_req(running(made, 0, tokens), finished=True)
        second = running(made, 1, tokens)
        found.append([second.cache_handle.cached_len, state(made, second)[1:]])
        shared = second.cache_handle.cached_len
        rows = [made.page_table[row, :shared].tolist() for row in (0, 1)]
        found[-1].append(rows[0] == rows[1])
    return found


def judge_a_cached_prefix_is_used_but_for_the_last_token(seed, got):
    want = [[0, [4, 0], True], [4, [0, 4], True], [5, [1, 5], True], [4, [2, 4], True]]
    equal(got, want, "matched, evictable and protected tokens; the same slots in both rows")


def probe_of_two_that_computed_the_same_one_copy_is_kept(seed):
    made = manager(10, 2)
    reqs = [running(made, i, ids) for i, ids in enumerate((A, A, B))]
    found = [state(made, *reqs)]
    for req in reqs:
        made.cache_req(req, finished=False)
        found.append([*state(made, *reqs), req.cache_handle.cached_len])
    rows = made.page_table[:, :6].tolist()
    for req in reversed(reqs):
        made.cache_req(req, finished=True)
    return [found, rows, state(made)]


def judge_of_two_that_computed_the_same_one_copy_is_kept(seed, got):
    want = [[[], 0, 0], [[], 0, 6, 6], [[6, 8, 10], 0, 6, 6], [[6, 8, 10, 12, 14], 0, 8, 6]]
    equal(got[0], want, "free pages, evictable, protected, and the handle's length, one by one")
    one = [0, 1, 2, 3, 4, 5]
    equal(got[1], [one, one, [0, 1, 2, 3, 16, 17]], "rows: they go on with the first one's")
    equal(got[2], [[6, 8, 10, 12, 14, 18], 8, 0], "free, evictable, protected when all finished")


@public_bug("B49")
def probe_a_finished_request_leaves_the_pages_that_were_cached(seed):
    made = manager(4, 1)
    req = running(made, 0, [4, 5, 6])
    slots = made.page_table[0, :3].tolist()
    made.cache_req(req, finished=True)
    free, cached = made.free_slots.tolist(), made.prefix_cache.all_indices().tolist()
    return [slots, free, cached, state(made)[1:]]


def judge_a_finished_request_leaves_the_pages_that_were_cached(seed, got):
    slots, free, cached, sizes = got
    equal(cached, slots, "cached slots, and those of the request")
    equal([sorted(free + cached), sizes], [[0, 1, 2, 3], [3, 0]], "all slots; sizes")


@public_bug("B47")
def probe_evicted_pages_are_handed_out_as_pages(seed):
    made = manager(4, 4)
    held = running(made, 0, A)
    made.cache_req(running(made, 1, [7] * 8), finished=True)
    sizes = [len(made.free_slots), made.available_size]
    taken = [made._allocate(1).tolist(), made._allocate(1).tolist()]
    sizes.append(made.available_size)
    lost = ints(taken).flatten()
    made._free(made._page_to_token(lost))
    return [sizes, taken, made.free_slots.tolist(), state(made, held)[1:]]


def judge_evicted_pages_are_handed_out_as_pages(seed, got):
    equal(got[0], [0, 8, 0], "free pages, available tokens; available tokens after two allocations")
    slots = [slot for part in got[1] for slot in part]
    truth(len(set(slots)) == 2 and all(s % 4 == 0 for s in slots), "two pages", got[1])
    equal(sorted(got[2]), sorted(slots), "the free list when they come back")
    equal(got[3], [0, 0], "cached tokens that are left")


def probe_locked_pages_are_not_available(seed):
    made = manager(6, 2)
    made.cache_req(running(made, 0, A), finished=True)
    handle = made.prefix_cache.match_prefix(ints(A[:4])).cuda_handle
    found = [made.available_size]
    for change in (made.lock, made.lock, made.unlock, made.unlock):
        change(handle)
        found.append(made.available_size)
    return found


def judge_locked_pages_are_not_available(seed, got):
    equal(got, [12, 8, 8, 8, 12], "available tokens: locked twice, unlocked twice")


def prompts() -> list[list[int]]:
    """Twelve prompts of few tokens, so that prefixes are shared."""
    return [[(uid * i) % 3 for i in range(1 + (5 * uid) % 13)] for uid in range(12)]


def probe_answers_are_the_same_with_a_cache_that_shares_and_evicts(seed):
    found = []
    for size, pages in ((1, 26), (4, 8), (16, 4)):
        scheduler = stub_scheduler(page_size=size, num_page_override=pages, max_running_req=3)
        scheduler.cache_manager.prefix_cache = Pages(size)
        for uid, ids in enumerate(prompts()):
            scheduler.engine.expect(uid, ids + answer(ids, 6))
            scheduler.send(user(uid, ids, 6))
        replies = scheduler.run()
        reused = sum(row[1] for phase, rows in scheduler.batches for row in rows
                     if phase == "prefill")  # fmt: skip
        found.append([[replies[uid] for uid in range(12)], scheduler.engine.wrong, reused])
        found[-1].append(scheduler.cache_manager.available_size == size * pages)
    return found


def judge_answers_are_the_same_with_a_cache_that_shares_and_evicts(seed, got):
    want = [said(ids, 6) for ids in prompts()]
    for size, (replies, wrong, reused, is_free) in zip((1, 4, 16), got, strict=True):
        equal([replies, wrong, is_free], [want, [], True], f"replies, wrong slots, size {size}")
        truth(reused > 0 or size == 16, f"cached tokens were used at page size {size}", reused)
