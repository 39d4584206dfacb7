"""What a record from a sandbox has to look like before anything reads it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError


def _id_and_logit(pair: list[int | float]) -> list[int | float]:
    if len(pair) != 2 or not isinstance(pair[0], int):
        raise ValueError("it is no pair of an id and a logit")
    return pair


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=True)
    name: str = ""
    index: int = 0


class _Error(_Record):
    error: str
    message: str
    place: str
    trace: str


class _Skip(_Record):
    reason: str


class _Probe(_Record):
    name: str
    got: Any = Field(...)


class _Generation(_Record):
    token_ids: list[list[int]]
    top2: list[list[list[Annotated[list[int | float], AfterValidator(_id_and_logit)]]]]
    counters: dict[str, int]


class _End(_Record):
    modules: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]]
    violations: list[str]
    lines: dict[str, list[int]]


class _Exit(_Record):
    status: int


_SHAPES: dict[str, type[_Record]] = {
    "start": _Record, "started": _Record, "ready": _Record, "exit": _Exit, "probe": _Probe,
    "skip": _Skip, "error": _Error, "generation": _Generation, "end": _End,
}  # fmt: skip


def is_sound(record: dict[str, Any]) -> bool:
    """Whether it has the shape of its kind."""
    kind = record["kind"]
    try:
        _SHAPES[kind].model_validate(record)
    except (KeyError, TypeError, ValidationError):
        return False
    return True
