"""Presence and frequency penalties: what an answer has said already gets less likely."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Penalties(NamedTuple):
    """The requests of a batch that have a penalty, one entry for each, on the device.

    places, rows: (n,) int64, their rows in the logits and in the table of counts; new_rows: (m,)
    int64, those of rows whose answer begins now. presence, frequency: (n, 1) float32.
    """

    places: torch.Tensor
    rows: torch.Tensor
    new_rows: torch.Tensor
    presence: torch.Tensor
    frequency: torch.Tensor


class TokenCounts:
    """How often each answer has each token, by the request's row; a prompt's tokens don't count.

    The counts lie on the device and change in the order of the passes there, so that they are
    right when a pass samples, although the CPU may not have seen the tokens before it yet.
    """

    def __init__(self, num_rows: int, vocab_size: int, device: torch.device) -> None:
        self._shape, self._device = (num_rows, vocab_size), device
        self._made: torch.Tensor | None = None

    @property
    def table(self) -> torch.Tensor:
        """The counts, (rows, vocab) int32; the memory is taken when they are first asked for."""
        if self._made is None:
            self._made = torch.zeros(self._shape, dtype=torch.int32, device=self._device)
        return self._made

    def penalize(self, logits: torch.Tensor, given: Penalties) -> torch.Tensor:
        """Return logits, (requests, vocab), with the penalties taken off; float32, in new memory.

        The counts of answers that begin are set to 0 before.
        """
        self.table.index_fill_(0, given.new_rows, 0)
        counts, logits = self.table[given.rows], logits.float()
        taken = given.presence * (counts > 0) + given.frequency * counts
        return logits.index_copy(0, given.places, logits[given.places] - taken)

    def add(self, tokens: torch.Tensor, given: Penalties) -> None:
        """Count one more token of each answer; tokens: (requests,) int64, of the whole batch."""
        self.table[given.rows, tokens[given.places]] += 1
