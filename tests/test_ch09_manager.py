"""Chapter 09: the cache manager over the radix tree: what is evicted is handed out as pages."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, error_of, public_bug, refused, truth

SIZES = (1, 2, 4, 16)


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def full(page_size: int, num_pages: int = 6, branches: int = 3) -> Any:
    """A manager all of whose pages lie in the tree, in branches that share no prefix.

    It is made and filled as upstream's unit tests do it.
    """
    from minisgl import core
    from minisgl.scheduler.cache import CacheManager

    core._GLOBAL_CTX = None
    core.set_global_ctx(core.Context(page_size))
    table = torch.zeros(4, 64, dtype=torch.int32)
    made = CacheManager(num_pages, page_size, table, type="radix")
    pages = num_pages // branches
    for branch in range(branches):
        slots = made._page_to_token(made._allocate(pages))
        ids = ints([100 * branch + i for i in range(pages * page_size)])
        made.prefix_cache.insert_prefix(ids, slots)
    return made


def probe_pages_after_an_eviction_begin_where_pages_begin(seed):
    return [full(size)._allocate(2).tolist() for size in SIZES]


def judge_pages_after_an_eviction_begin_where_pages_begin(seed, got):
    equal(got, [[0, size] for size in SIZES], "two pages: those of the branch that came first")


@public_bug("B47")
def probe_one_page_after_another_is_evicted_and_none_twice(seed):
    found = []
    for size in SIZES:
        made = full(size)
        pages = torch.cat([made._allocate(1) for _ in range(6)])
        slots = made._page_to_token(pages).tolist()
        found.append([pages.tolist(), sorted(slots), made.available_size])
    return found


def judge_one_page_after_another_is_evicted_and_none_twice(seed, got):
    for size, (pages, slots, available) in zip(SIZES, got, strict=True):
        equal(sorted(pages), [size * i for i in range(6)], f"six pages, page size {size}")
        equal([slots, available], [list(range(6 * size)), 0], "their slots; what is left")


def probe_the_free_list_holds_pages_after_an_eviction(seed):
    found = []
    for size in SIZES:
        made = full(size)
        states = [made.free_slots.tolist()]
        for count in (1, 1, 2):
            made._allocate(count)
            states.append(made.free_slots.tolist())
        found.append(states)
    return found


def judge_the_free_list_holds_pages_after_an_eviction(seed, got):
    for size, states in zip(SIZES, got, strict=True):
        want = [[], [size], [], []]
        equal(states, want, f"free pages, first and after allocations, page size {size}")


def probe_no_more_is_evicted_than_must_be(seed):
    found = []
    for size in SIZES:
        made = full(size)
        sizes = []
        for count in (2, 2, 1):
            made._allocate(count)
            sizes.append([made.prefix_cache.size_info.evictable_size, len(made.free_slots)])
        refusal = error_of(lambda made=made: made._allocate(9))
        found.append([sizes, refusal, made.prefix_cache.size_info.evictable_size])
    return found


def judge_no_more_is_evicted_than_must_be(seed, got):
    for size, (sizes, refusal, left) in zip(SIZES, got, strict=True):
        want = [[4 * size, 0], [2 * size, 0], [0, 1]]
        equal(sizes, want, f"evictable tokens and free pages, page size {size}")
        refused(refusal, f"nine pages, page size {size}", str(8 * size), kind="RuntimeError")
        equal(left, 0, "evictable tokens afterwards")


def probe_the_slots_of_evicted_pages_are_theirs_alone(seed):
    found = []
    for size in SIZES:
        made = full(size)
        taken = made._page_to_token(made._allocate(3)).tolist()
        rest = made.prefix_cache.all_indices().tolist()
        rest += made._page_to_token(made.free_slots).tolist()
        found.append([taken, rest])
    return found


def judge_the_slots_of_evicted_pages_are_theirs_alone(seed, got):
    for size, (taken, rest) in zip(SIZES, got, strict=True):
        runs = [taken[i : i + size] for i in range(0, len(taken), size)]
        whole = all(run == list(range(run[0], run[0] + size)) for run in runs)
        truth(whole, f"three runs of {size} slots", runs)
        equal(sorted(taken + rest), list(range(6 * size)), f"each slot once, page size {size}")


def probe_integrity_holds_over_rounds_of_eviction(seed):
    found = []
    for size in SIZES:
        made, problems = full(size), []
        for turn in range(4):
            pages = made._allocate(3)
            problems.append(error_of(made.check_integrity))
            slots = made._page_to_token(pages)
            if turn % 2:
                made._free(slots)
            else:
                ids = ints([1000 * (turn + 1) + i for i in range(3 * size)])
                made.prefix_cache.insert_prefix(ids, slots)
            problems.append(error_of(made.check_integrity))
        found.append([problems[1::2], problems[::2], made.available_size])
    return found


def judge_integrity_holds_over_rounds_of_eviction(seed, got):
    for size, (sound, missing, available) in zip(SIZES, got, strict=True):
        equal(sound, [None] * 4, f"problems when all pages are back, page size {size}")
        for problem in missing:
            refused(problem, f"three pages in nobody's hands, page size {size}", "nobody", "3 of 6")
        equal(available, 6 * size, "tokens that are available")
