"""The rows of the page table and of the token pool, one pair for each running request."""

from __future__ import annotations

import torch


class TableManager:
    """Hands out the rows of two tables of the same shape, (rows, positions) int32.

    page_table[row, position] is the pool slot with that token's K and V; token_pool[row, position]
    is the token's id, kept on the device so that a sampled token needs no way back from the CPU.
    """

    def __init__(self, max_running_reqs: int, page_table: torch.Tensor) -> None:
        assert max_running_reqs <= len(page_table), (
            f"{max_running_reqs} requests need as many rows; the page table has {len(page_table)}"
        )
        self.page_table = page_table
        self.token_pool = torch.zeros_like(page_table)
        self._max_running_reqs = max_running_reqs
        self._free_rows = list(range(max_running_reqs))

    @property
    def available_size(self) -> int:
        """Rows that are free."""
        return len(self._free_rows)

    def allocate(self) -> int:
        """Return a free row, which is now taken; there must be one."""
        assert self._free_rows, f"all {self._max_running_reqs} rows are taken"
        return self._free_rows.pop()

    def free(self, slot: int) -> None:
        """Give row slot back, which must be taken."""
        assert 0 <= slot < self._max_running_reqs, f"there is no row {slot}"
        assert slot not in self._free_rows, f"row {slot} is free already"
        self._free_rows.append(slot)
