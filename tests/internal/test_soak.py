"""The driver of random traffic, in short; and it finds each of upstream's faults."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from faults import upstream_overlap as upstream
from minisgl.core import Batch
from minisgl.scheduler import Scheduler
from soak.counts import CHUNKS, events, missed
from soak.drive import Violation, soak


def test_some_thousand_events() -> None:
    counts = soak(10_000, seed=1)
    assert events(counts) >= 10_000
    assert all(counts[f"prefill: {kind}"] for kind in CHUNKS)
    assert counts["finish"] > 300 and counts["aborted"] > 50 and counts["eviction"] > 50


def test_what_was_not_met_is_named() -> None:
    short = missed(Counter({"finish": 90, "request": 100, "aborted": 9, "message": 9_000}), 10_000)
    assert "finish: 90, at least 100 are needed" in short
    assert "aborted: 9, at least 10 are needed" in short
    assert short[-1] == "9090 events of 10000"


def test_a_seed_gives_the_same_traffic_again() -> None:
    assert soak(2_000, seed=2) == soak(2_000, seed=2) != soak(2_000, seed=3)


@pytest.mark.parametrize(
    ("base", "what"),
    [
        (upstream.JudgesTheLengthInFlight, "reply|has ended and is sent"),
        (upstream.ForgetsWhoHasEnded, "has ended and is sent"),
        (upstream.GivesRowsAwayInFlight, "rows|stranger|reply"),
        (upstream.FreesAtAbortToo, "page|needed"),
    ],
)
def test_upstreams_faults_are_found(base: type, what: str) -> None:
    with pytest.raises(Violation, match=what) as caught:
        soak(20_000, seed=1, base=base)
    assert "--seed 1 --episode" in str(caught.value)


class ExceedsTheBudget(Scheduler):
    """Computes one token more than a prefill batch may."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.prefill_budget += 1


class KeepsOneBack(Scheduler):
    """Leaves the last of several running requests out of each decode batch."""

    def _reset(self) -> None:
        super()._reset()
        plain = self.decode_manager.schedule_next_batch

        def schedule_next_batch() -> Batch | None:
            batch = plain()
            return batch and Batch(batch.reqs[:-1] or batch.reqs, phase="decode")

        vars(self.decode_manager)["schedule_next_batch"] = schedule_next_batch


class EvictsEverything(Scheduler):
    """Empties the prefix cache whenever a page is missing."""

    def _reset(self) -> None:
        super()._reset()
        cache = self.cache_manager.prefix_cache
        plain = cache.evict

        def evict(size: int) -> torch.Tensor:
            return plain(cache.size_info.evictable_size)

        vars(cache)["evict"] = evict


@pytest.mark.parametrize(
    ("base", "what"),
    [
        (ExceedsTheBudget, "for a budget of"),
        (KeepsOneBack, "are decoded"),
        (EvictsEverything, "are evicted for"),
    ],
)
def test_what_changes_no_answer_is_found_too(base: type, what: str) -> None:
    with pytest.raises(Violation, match=what):
        soak(20_000, seed=1, base=base)
