"""The driver of random traffic, in short; and it finds each of upstream's faults."""

from __future__ import annotations

from collections import Counter

import pytest

from faults import upstream_overlap as upstream
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
