"""Chapter 04: rows of the page table and of the token pool are handed out once each."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, error_of, refused


def tables(rows: int = 3, requests: int = 3) -> Any:
    """A TableManager on a page table of 8 positions, filled with ones."""
    from minisgl.scheduler.table import TableManager

    return TableManager(requests, torch.ones(rows, 8, dtype=torch.int32))


def probe_each_row_is_handed_out_once(seed):
    manager = tables()
    sizes, rows = [manager.available_size], []
    for _ in range(3):
        rows.append(manager.allocate())
        sizes.append(manager.available_size)
    return [sorted(rows), sizes]


def judge_each_row_is_handed_out_once(seed, got):
    equal(got[0], [0, 1, 2], "all rows, in order")
    equal(got[1], [3, 2, 1, 0], "free rows before and after each one")


def probe_a_row_is_refused_when_all_are_taken(seed):
    manager = tables()
    for _ in range(3):
        manager.allocate()
    return error_of(manager.allocate)


def judge_a_row_is_refused_when_all_are_taken(seed, got):
    refused(got, "a fourth row of three", "all 3 rows are taken")


def probe_a_row_that_was_given_back_can_be_had_again(seed):
    manager = tables()
    taken = [manager.allocate() for _ in range(3)]
    manager.free(taken[1])
    size = manager.available_size
    return [manager.allocate() == taken[1], size, manager.available_size]


def judge_a_row_that_was_given_back_can_be_had_again(seed, got):
    equal(got, [True, 1, 0], "the same row again, and free rows before and after")


def probe_every_row_can_be_given_back(seed):
    manager = tables()
    taken = [manager.allocate() for _ in range(3)]
    errors = [error_of(lambda row=row: manager.free(row)) for row in taken]
    return [errors, sorted(manager.allocate() for _ in range(3))]


def judge_every_row_can_be_given_back(seed, got):
    equal(got, [[None] * 3, [0, 1, 2]], "errors, and the rows that can be had afterwards")


def probe_a_row_cant_be_given_back_twice(seed):
    manager = tables()
    row = manager.allocate()
    manager.free(row)
    twice = error_of(lambda: manager.free(row))
    return [row, twice, error_of(lambda: tables().free(1)), manager.available_size]


def judge_a_row_cant_be_given_back_twice(seed, got):
    row, twice, never_taken, size = got
    refused(twice, "the second free", f"row {row} is free already")
    refused(never_taken, "the free of a row that was never taken", "row 1 is free already")
    equal(size, 3, "free rows afterwards")


def probe_a_row_that_doesnt_exist_cant_be_given_back(seed):
    manager = tables(rows=4, requests=3)
    return [error_of(lambda row=row: manager.free(row)) for row in (-1, 3, 4)]


def judge_a_row_that_doesnt_exist_cant_be_given_back(seed, got):
    for row, error in zip((-1, 3, 4), got, strict=True):
        refused(error, f"the free of row {row}", f"there is no row {row}")


def probe_only_as_many_rows_as_requests_are_handed_out(seed):
    manager = tables(rows=4, requests=2)
    rows = sorted([manager.allocate(), manager.allocate()])
    return [rows, error_of(manager.allocate)]


def judge_only_as_many_rows_as_requests_are_handed_out(seed, got):
    equal(got[0], [0, 1], "rows for two requests in a table of four")
    refused(got[1], "a third row", "all 2 rows are taken")


def probe_a_page_table_with_too_few_rows_is_refused(seed):
    return error_of(lambda: tables(rows=3, requests=4))


def judge_a_page_table_with_too_few_rows_is_refused(seed, got):
    refused(got, "4 requests on 3 rows", "4 requests", "page table has 3")


def probe_the_token_pool_is_a_zeroed_twin_of_the_page_table(seed):
    manager = tables()
    twin = manager.token_pool
    facts = [twin.tolist(), list(twin.shape), str(twin.dtype)]
    twin[1, 2] = 77
    return [*facts, manager.page_table.tolist()]


def judge_the_token_pool_is_a_zeroed_twin_of_the_page_table(seed, got):
    content, shape, dtype, page_table = got
    equal(content, [[0] * 8] * 3, "the token pool at first")
    equal([shape, dtype], [[3, 8], "torch.int32"], "its shape and dtype")
    equal(page_table, [[1] * 8] * 3, "the page table after a write to the token pool")


def probe_the_page_table_is_used_as_it_is_and_not_copied(seed):
    from minisgl.scheduler.table import TableManager

    page_table = torch.zeros(2, 4, dtype=torch.int32)
    TableManager(2, page_table).page_table[1, 3] = 9
    return page_table.tolist()


def judge_the_page_table_is_used_as_it_is_and_not_copied(seed, got):
    equal(got, [[0, 0, 0, 0], [0, 0, 0, 9]], "the caller's page table after the manager's write")
