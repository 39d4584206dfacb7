"""The recipe of a tiny checkpoint, as data/checkpoints.toml gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tiny:
    """How one tiny checkpoint is drawn and cut into files."""

    seed: int
    embedding_std: float
    gain: float
    cut_after: tuple[str, ...]
    config: dict[str, Any]
    generation: dict[str, Any]
    head_in_files: bool = False
    null: tuple[str, ...] = ()
