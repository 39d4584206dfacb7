"""Progress bars of a benchmark, and how many requests were under way at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tqdm import tqdm

from minisgl.utils import init_logger

logger = init_logger(__name__)


@dataclass
class Counter:
    """A number that goes up and down, and the highest it has been."""

    current: int = 0
    history_max: int = 0

    def inc(self, n: int = 1) -> None:
        self.current += n
        self.history_max = max(self.history_max, self.current)

    def dec(self, n: int = 1) -> None:
        self.current -= n


@dataclass
class Console:
    """Four bars: requests sent, requests answered, first chunks come, and tokens come.

    inflight_counter: requests sent and not yet at their end; queue_counter: those of them whose
    first chunk hasn't come. disabled: the bars are not shown; the counters count all the same.
    """

    input_pbar: tqdm
    output_pbar: tqdm
    prefill_pbar: tqdm
    decode_pbar: tqdm
    disabled: bool
    inflight_counter: Counter = field(default_factory=Counter)
    queue_counter: Counter = field(default_factory=Counter)

    def update_input(self, n: int = 1) -> None:
        """n requests were sent."""
        self.input_pbar.update(n)
        self.queue_counter.inc(n)

    def update_output(self, n: int = 1) -> None:
        """n requests came to their end."""
        self.output_pbar.update(n)

    def update_prefill(self, n: int = 1) -> None:
        """n requests wait no more: the first chunk has come, or an error instead of it."""
        self.prefill_pbar.update(n)
        self.queue_counter.dec(n)

    def update_decode(self, n: int = 1) -> None:
        """n tokens have come."""
        self.decode_pbar.update(n)

    @contextmanager
    def inflight(self, n: int = 1) -> Iterator[None]:
        """n requests are under way inside this block."""
        self.inflight_counter.inc(n)
        try:
            yield
        finally:
            self.inflight_counter.dec(n)

    @contextmanager
    def log_stats(self) -> Iterator[None]:
        """The bars end with this block; shown ones are followed by the highest counts."""
        try:
            yield
        finally:
            for bar in (self.input_pbar, self.output_pbar, self.prefill_pbar, self.decode_pbar):
                bar.close()
            if not self.disabled:
                most, waiting = self.inflight_counter.history_max, self.queue_counter.history_max
                logger.info("at most %d requests at once, %d without a token", most, waiting)


def make_console(num_requests: int, sum_output_length: int, use_pbar: bool = True) -> Console:
    """Return a console for this many requests, and tokens of all answers together."""
    totals = {"sent": num_requests, "answered": num_requests, "first chunks": num_requests}
    bars = [
        tqdm(total=total, desc=f"{label:>12}", position=i, disable=not use_pbar)
        for i, (label, total) in enumerate({**totals, "tokens": sum_output_length}.items())
    ]
    return Console(bars[0], bars[1], bars[2], bars[3], disabled=not use_pbar)
