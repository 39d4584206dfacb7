"""Chapter 08: pages are handed out whole, written into rows where needed, and come back."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, error_of, refused, truth

SIZES = (1, 4, 16)
UNSET = -1


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def manager(num_pages: int, page_size: int, rows: int = 4, columns: int = 64) -> Any:
    """A cache manager over a table of unset entries, made as upstream's unit tests make it."""
    from minisgl import core
    from minisgl.scheduler.cache import CacheManager

    core._GLOBAL_CTX = None
    core.set_global_ctx(core.Context(page_size))
    table = torch.full((rows, columns), UNSET, dtype=torch.int32)
    return CacheManager(num_pages, page_size, table, type="naive")


def make_req(row: int, cached: int, device: int, uid: int = 0) -> Any:
    """A request with cached tokens in the pool, and device tokens after the next pass."""
    from minisgl.core import Req, SamplingParams
    from minisgl.kvcache.naive_cache import NaiveCacheHandle

    handle = NaiveCacheHandle()
    return Req(ints(range(device)), row, cached, 9, uid, SamplingParams(), handle)


def probe_pages_are_known_by_their_first_slots(seed):
    found = []
    for size in SIZES:
        made = manager(6, size)
        free = made.free_slots.tolist()
        taken = [made._allocate(n).tolist() for n in (1, 2, 0)]
        found.append([free, taken, made.free_slots.tolist(), made.available_size])
        found[-1].append(str(made.free_slots.dtype))
    return found


def judge_pages_are_known_by_their_first_slots(seed, got):
    for size, (free, taken, left, available, dtype) in zip(SIZES, got, strict=True):
        equal(free, [size * i for i in range(6)], f"free slots at page size {size}")
        equal([len(x) for x in taken], [1, 2, 0], "pages per allocation")
        every = [slot for part in (*taken, left) for slot in part]
        equal(sorted(every), free, "what was taken and what is left")
        equal([available, dtype], [3 * size, "torch.int32"], "tokens that are free; dtype")


def probe_all_slots_of_a_page_belong_to_it(seed):
    pages = [ints([0, 3, 1]), ints([8, 0]), ints([32])]
    return [manager(4, size)._page_to_token(x).tolist()
            for size, x in zip(SIZES, pages, strict=True)]  # fmt: skip


def judge_all_slots_of_a_page_belong_to_it(seed, got):
    want = [[0, 3, 1], [8, 9, 10, 11, 0, 1, 2, 3], list(range(32, 48))]
    equal(got, want, "slots of pages at page size 1, 4 and 16")


def probe_freed_slots_come_back_as_pages(seed):
    found = []
    for slots in (range(4, 12), range(4, 11), range(4, 9), [12, 13, 14, 15, 0, 1], []):
        made = manager(4, 4)
        made._allocate(4)
        given = ints(list(slots))
        made._free(given)
        given[:] = 99
        found.append(made.free_slots.tolist())
    return found


def judge_freed_slots_come_back_as_pages(seed, got):
    equal(got, [[4, 8], [4, 8], [4, 8], [12, 0], []], "pages whose slots were freed")


def probe_more_pages_than_there_are_can_not_be_had(seed):
    made = manager(3, 4)
    error = error_of(lambda: made._allocate(4))
    made.prefix_cache.evict = lambda size: ints([])
    return [error, error_of(lambda: made._allocate(4)), made.free_slots.tolist()]


def judge_more_pages_than_there_are_can_not_be_had(seed, got):
    refused(got[0], "a fourth page of three", "4 tokens to evict")
    refused(got[1], "with a cache that evicts too little", "4 pages", "3 are free", "had to wait")
    equal(got[2], [0, 4, 8], "free pages afterwards")


SPANS = ((0, 0, 5), (1, 3, 4), (2, 4, 5), (3, 6, 17))
"""Row, cached_len and device_len of four requests."""


def probe_each_request_gets_exactly_the_pages_that_it_lacks(seed):
    found = []
    for size in SIZES:
        made = manager(32, size)
        reqs = [make_req(*span) for span in SPANS]
        made.allocate_paged(reqs)
        table, free = made.page_table.tolist(), made.free_slots.tolist()
        made.allocate_paged([reqs[1]] if size > 1 else [])
        found.append([table, free, len(made.free_slots)])
    return found


def judge_each_request_gets_exactly_the_pages_that_it_lacks(seed, got):
    for size, (table, free, later) in zip(SIZES, got, strict=True):
        taken: list[int] = []
        for row, cached, device in SPANS:
            what = f"row {row} from {cached} to {device}, page size {size}"
            first, end = -(-cached // size), -(-device // size)
            filled = [i for i, slot in enumerate(table[row]) if slot != UNSET]
            equal(
                filled, list(range(first * size, end * size)), f"columns that were filled: {what}"
            )
            pages = [table[row][i] for i in filled[::size]]
            spread = [page + i for page in pages for i in range(size)]
            equal([table[row][i] for i in filled], spread, f"whole pages in order: {what}")
            truth(all(page % size == 0 for page in pages), f"they are pages: {what}", pages)
            taken += pages
        equal(sorted(taken + free), [size * i for i in range(32)], f"pages, taken or free: {size}")
        equal(later, len(free), "pages when a request has what it needs")


def probe_a_row_keeps_its_pages_while_it_grows(seed):
    found = []
    for size in SIZES:
        made, req = manager(20, size, rows=1), make_req(0, 0, 3)
        used = []
        for _ in range(8):
            made.allocate_paged([req])
            used.append(20 - len(made.free_slots))
            req.complete_one()
        row = made.page_table[0, : req.cached_len].tolist()
        found.append([used, len(set(row)), min(row)])
    return found


def judge_a_row_keeps_its_pages_while_it_grows(seed, got):
    want = [[3, 4, 5, 6, 7, 8, 9, 10], [1, 1, 2, 2, 2, 2, 3, 3], [1] * 8]
    for size, pages, (used, slots, lowest) in zip(SIZES, want, got, strict=True):
        equal(used, pages, f"pages in use at lengths 3 to 10, page size {size}")
        equal([slots, lowest], [10, 0], "different slots in the row; the lowest one")


def probe_slots_are_written_where_they_are_needed_and_nowhere_else(seed):
    from minisgl.scheduler.cache import _write_page_table

    table = torch.full((3, 8), UNSET, dtype=torch.int32)
    slots = ints([6, 7, 0, 1, 2, 3, 10, 11])
    _write_page_table(table, slots, [(2, 3, 4), (1, 1, 1), (0, 0, 2), (1, 1, 2)], 2)
    return table.tolist()


def judge_slots_are_written_where_they_are_needed_and_nowhere_else(seed, got):
    want = [[0, 1, 2, 3] + [UNSET] * 4, [UNSET] * 2 + [10, 11] + [UNSET] * 4,
            [UNSET] * 6 + [6, 7]]  # fmt: skip
    equal(got, want, "the table")


def probe_lazy_frees_come_back_together_and_once(seed):
    made = manager(6, 4)
    made._allocate(6)
    row = ints(range(24))
    states = []
    with made.lazy_free_region():
        made._free(row[4:8])
        made._free(row[12:21])
        row[:] = 99
        states.append(made.free_slots.tolist())
    states.append(made.free_slots.tolist())
    with made.lazy_free_region():
        pass
    made._free(ints([0, 1]))
    states.append(made.free_slots.tolist())

    def failing() -> None:
        with made.lazy_free_region():
            made._free(ints([8]))
            raise ValueError("no")

    return [states, error_of(failing), made.free_slots.tolist(), made.available_size]


def judge_lazy_frees_come_back_together_and_once(seed, got):
    want = [[], [4, 12, 16, 20], [4, 12, 16, 20, 0]]
    equal(got[0], want, "free pages inside, after it, and after an empty one and a plain free")
    refused(got[1], "the block's own error", "no", kind="ValueError")
    equal(got[2:], [[4, 12, 16, 20, 0, 8], 24], "free pages after a block that failed; tokens")


def probe_a_finished_request_gives_up_all_its_pages(seed):
    found = []
    for size in SIZES:
        made, req, other = manager(20, size), make_req(1, 0, 7), make_req(2, 0, 4)
        made.allocate_paged([req, other])
        req.complete_one()
        made.cache_req(req, finished=False)
        made.allocate_paged([req])
        req.complete_one()
        before = len(made.free_slots)
        made.cache_req(req, finished=True)
        held = set(made.page_table[2, :4].tolist()) & set(made.free_slots.tolist())
        found.append([before, len(made.free_slots), len(set(made.free_slots.tolist())), len(held)])
    return found


def judge_a_finished_request_gives_up_all_its_pages(seed, got):
    want = [[8, 16, 16, 0], [17, 19, 19, 0], [18, 19, 19, 0]]
    equal(got, want, "free pages before and after; different ones; those of the other request")
