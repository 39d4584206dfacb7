"""Which of the tensor-parallel ranks this process is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DistributedInfo:
    """This process is number rank of size processes that share one model."""

    rank: int
    size: int

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.size, f"rank {self.rank} is not below size {self.size}"

    def is_primary(self) -> bool:
        """Whether this is the rank that talks to the outside."""
        return self.rank == 0


_TP_INFO: DistributedInfo | None = None


def set_tp_info(rank: int, size: int) -> None:
    """Say which rank this process is; raises when it was said before and is another."""
    global _TP_INFO
    info = DistributedInfo(rank, size)
    assert _TP_INFO in (None, info), f"this process is {_TP_INFO} already"
    _TP_INFO = info


def get_tp_info() -> DistributedInfo:
    """Return which rank this process is: by default rank 0 of 1."""
    return _TP_INFO or DistributedInfo(0, 1)


def try_get_tp_info() -> DistributedInfo | None:
    """Return which rank this process is, or None when that was never said."""
    return _TP_INFO
