"""What a benchmark keeps of each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RawResult:
    """One request as the client saw it.

    tics: seconds of one clock: when it was sent, then when each chunk with content came.
    input_len: tokens of the prompt; None when nobody has counted them.
    error: why the request failed; None when its answer came to its end.
    """

    input_len: int | None
    output_len: int
    message: str
    tics: list[float]
    error: str | None = None


@dataclass(frozen=True)
class BenchOneResult:
    """One answered request in numbers. tics: as in RawResult."""

    tics: list[float]
    input_len: int
    output_len: int

    def as_json(self) -> list[float]:
        """Return one flat list: input_len, output_len, then the tics."""
        return [self.input_len, self.output_len, *self.tics]

    @staticmethod
    def from_json(raw: Sequence[float]) -> BenchOneResult:
        """Return what as_json was called on; ValueError when a number is missing."""
        if len(raw) < 3:
            raise ValueError(f"a result has two lengths and a time at least, not {list(raw)}")
        return BenchOneResult(list(raw[2:]), int(raw[0]), int(raw[1]))


@dataclass(frozen=True)
class BenchmarkResult:
    """All answered requests of one run."""

    raw_data: list[BenchOneResult]

    def as_json(self) -> list[list[float]]:
        """Return one flat list for each request."""
        return [one.as_json() for one in self.raw_data]

    @staticmethod
    def from_json(raw: Sequence[Sequence[float]]) -> BenchmarkResult:
        """Return what as_json was called on."""
        return BenchmarkResult([BenchOneResult.from_json(one) for one in raw])
