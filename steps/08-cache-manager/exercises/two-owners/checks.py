"""Moves pages through the reader's methods, and compares owners with the chapter's manager."""

from __future__ import annotations

from contextlib import nullcontext
from random import Random
from types import SimpleNamespace

import torch

from pairs import equal, error_of, truth

PAGES, LIMIT = 24, 96


class Prefixes:
    """A prefix cache of whole pages: the tokens up to a page's end -> its slots."""

    def __init__(self, page_size):
        self.size, self.pages, self.locks = page_size, {}, 0

    def keys(self, tokens):
        tokens = tuple(tokens.tolist())
        return [tokens[:end] for end in range(self.size, len(tokens) + 1, self.size)]

    def handle(self, keys):
        slots = torch.tensor([slot for key in keys for slot in self.pages[key]]).int()
        return SimpleNamespace(cached_len=len(slots), get_matched_indices=slots.clone)

    def match_prefix(self, tokens):
        from minisgl.kvcache import MatchResult

        return MatchResult(self.handle([key for key in self.keys(tokens) if key in self.pages]))

    def insert_prefix(self, tokens, slots):
        from minisgl.kvcache import InsertResult

        keys = self.keys(tokens)
        known = sum(key in self.pages for key in keys)
        for key in keys[known:]:
            self.pages[key] = slots[len(key) - self.size : len(key)].tolist()
        return InsertResult(known * self.size, self.handle(keys))

    def lock_handle(self, handle, unlock=False):
        self.locks += -1 if unlock else 1

    def all_indices(self):
        return torch.tensor([slot for page in self.pages.values() for slot in page]).int()

    def check_integrity(self):
        pass


def manager(kind, page_size, pages=PAGES):
    made = kind(pages, page_size, torch.zeros(4, LIMIT, dtype=torch.int32), "naive")
    made.prefix_cache = Prefixes(page_size)
    return made


def planted():
    """The class that the reader starts from."""
    from minisgl.scheduler.cache import CacheManager

    class Planted(CacheManager):
        def _free(self, indices):
            pages = indices[:: self.page_size]
            if self._freed is None:
                self.free_slots = torch.cat([self.free_slots, pages])
            else:
                self._freed.append(pages)

        def cache_req(self, req, *, finished):
            row, length, old = self.page_table[req.table_idx], req.cached_len, req.cache_handle
            found, handle = self.prefix_cache.insert_prefix(req.input_ids[:length], row[:length])
            self._free(row[:found])
            if finished:
                self._free(row[handle.cached_len : length])
            else:
                self.lock(handle)
                row[:found] = handle.get_matched_indices()[:found]
                req.cache_handle = handle
            self.unlock(old)

    return Planted


def admitted(made, row, tokens):
    """A request that begins with what is cached of its prompt."""
    from minisgl.core import Req, SamplingParams
    from minisgl.scheduler.utils import PendingReq

    ids, params = torch.tensor(tokens).int(), SamplingParams(max_tokens=20)
    handle = made.match_req(PendingReq(row, ids, params)).cuda_handle
    made.lock(handle)
    made.page_table[row, : handle.cached_len] = handle.get_matched_indices()
    return Req(ids, row, handle.cached_len, 20, row, params, handle)


def computed(made, *reqs):
    """One pass over these requests, without what happens to its result."""
    made.allocate_paged(list(reqs))
    for req in reqs:
        req.complete_one()


def decoded(made, req, steps):
    for step in range(steps):
        req.append_host(900 + step)
        computed(made, req)


def owners(made, *reqs):
    """How often each page has an owner."""
    own = [made.page_table[r.table_idx, r.cache_handle.cached_len : r.cached_len] for r in reqs]
    size = made.page_size
    parts = [
        made.free_slots,
        made.prefix_cache.all_indices()[::size],
        *(row[::size] for row in own),
    ]
    return torch.bincount(torch.cat(parts).long() // size, minlength=made.num_pages).tolist()


def trace(kind):
    """The statement's trace: owners of each page after part 1, and the free list after part 2."""
    made = manager(kind, 4, 8)
    first, second = (admitted(made, row, list(range(50, 60))) for row in (0, 1))
    computed(made, first, second)
    with made.lazy_free_region():
        made.cache_req(first, finished=False)
        made.cache_req(second, finished=False)
    counts = owners(made, first, second)
    decoded(made, first, 3)
    with made.lazy_free_region():
        made.cache_req(first, finished=True)
    return counts, made.free_slots.tolist()


def probe_pages_that_are_lost(seed):
    counts, _ = trace(planted())

    from answer import LOST

    return {"right": [4 * page for page, count in enumerate(counts) if not count], "got": LOST}


def judge_pages_that_are_lost(seed, got):
    what = "LOST (a view shows what the row holds when the region ends, not when it was freed)"
    truth(same_pages(got), what, got["got"])


def probe_pages_with_two_owners(seed):
    counts, _ = trace(planted())

    from answer import TWICE

    return {"right": [4 * page for page, count in enumerate(counts) if count > 1], "got": TWICE}


def judge_pages_with_two_owners(seed, got):
    what = "TWICE (the slots that B's row gets are those of the copy that is kept)"
    truth(same_pages(got), what, got["got"])


def same_pages(got):
    return isinstance(got["got"], list) and sorted(got["got"]) == got["right"]


def probe_the_free_list_of_the_mended_code(seed):
    from minisgl.scheduler.cache import CacheManager

    _, free = trace(CacheManager)

    from answer import FREE

    return {"right": free, "got": FREE}


def judge_the_free_list_of_the_mended_code(seed, got):
    what = (
        "FREE (pages are taken from the front and come back at the end; "
        "a full page of a request that ends goes to the prefix cache)"
    )
    truth(got["got"] == got["right"], what, got["got"])


def drawn(seed):
    """Page sizes and prompts; the last token is never the first of a page."""
    random = Random(seed)
    for page_size in (2, 4, 8):
        pages = random.randrange(2, 4)
        length = pages * page_size + random.randrange(1, page_size)
        yield page_size, [random.randrange(800) for _ in range(length)]


def after(made, *reqs):
    """What is wrong with the owners; None if nothing is."""
    error = error_of(lambda: made.check_integrity(reqs))
    return error and error["message"]


def probe_a_prompt_that_was_cached_before(seed):
    from answer import Manager

    found = []
    for page_size, tokens in drawn(seed):
        made = manager(Manager, page_size)
        for row in (0, 1):
            req = admitted(made, row, tokens)
            computed(made, req)
            made.cache_req(req, finished=row == 0)
        found.append(after(made, req))
    return found


def judge_a_prompt_that_was_cached_before(seed, got):
    what = (
        "a request that began with a cached prefix "
        "(what it found at its admission is not its own to free)"
    )
    for error in got:
        truth(error is None, what, error)


def twice(kind, page_size, tokens, is_lazy):
    """Two requests with one prompt that are computed in one batch, then both go on."""
    made = manager(kind, page_size)
    reqs = [admitted(made, row, tokens) for row in (0, 1)]
    computed(made, *reqs)
    with made.lazy_free_region() if is_lazy else nullcontext():
        for req in reqs:
            made.cache_req(req, finished=False)
    return made, reqs


def probe_a_prompt_that_is_computed_twice(seed):
    from answer import Manager

    found = []
    for page_size, tokens in drawn(seed):
        made, reqs = twice(Manager, page_size, tokens, is_lazy=False)
        found.append(after(made, *reqs))
    return found


def judge_a_prompt_that_is_computed_twice(seed, got):
    for error in got:
        reason = "what is freed are the slots that the row had before it got the other copy's"
        if error and "nobody" in error and "free list" not in error:
            reason = "of two copies one is kept, so the pages of the other have to go back"
        if error and "its row is not" in error:
            reason = "the request that goes on must go on with the copy that is kept"
        truth(error is None, f"a prompt that is computed twice ({reason})", error)


def probe_the_same_in_a_region(seed):
    from answer import Manager

    found = []
    for page_size, tokens in drawn(seed):
        made, reqs = twice(Manager, page_size, tokens, is_lazy=True)
        found.append(after(made, *reqs))
    return found


def judge_the_same_in_a_region(seed, got):
    what = (
        "a prompt that is computed twice, in a region (the row is written before the region ends)"
    )
    for error in got:
        truth(error is None, what, error)


def lives(kind, page_size, tokens):
    """Two requests with one prompt up to their ends, and a third that finds all of it cached."""
    made, reqs = twice(kind, page_size, tokens[: len(tokens) // page_size * page_size], True)
    states = []
    for req in reqs:
        decoded(made, req, page_size + 1)
        with made.lazy_free_region():
            made.cache_req(req, finished=True)
        states.append(made.free_slots.tolist())
    last = admitted(made, 2, tokens[: len(tokens) // page_size * page_size])
    computed(made, last)
    made.cache_req(last, finished=False)
    row = made.page_table[2, : last.cached_len].tolist()
    free = [*states, made.free_slots.tolist()]
    return {"free": free, "row": row, "locks": made.prefix_cache.locks}


def probe_whole_lives(seed):
    from minisgl.scheduler.cache import CacheManager

    measured = [lives(CacheManager, *case) for case in drawn(seed)]

    from answer import Manager

    return [
        {"measured": case, "mended": lives(Manager, *drawn_case)}
        for case, drawn_case in zip(measured, drawn(seed), strict=True)
    ]


def judge_whole_lives(seed, got):
    reasons = {
        "free": "free lists (a request that ends frees what the cache did not take)",
        "row": "the row of a request that finds all of its prompt cached",
        "locks": "locks (a request has one at a time, on its newest handle)",
    }
    for case in got:
        for key, reason in reasons.items():
            equal(case["mended"][key], case["measured"][key], reason)
