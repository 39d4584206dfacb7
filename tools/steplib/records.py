"""TOML tables read strictly into frozen dataclasses."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from steplib.errors import UserError, did_you_mean

T = TypeVar("T")

_NAMES = {int: "a whole number", str: "a text", bool: "true or false", dict: "a table"}


def read_toml(path: Path, where: str) -> dict[str, Any]:
    """The file's tables; UserError (naming `where`) when it is missing or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{where}: this file is missing; write it.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = str(error).removesuffix(".")
        raise UserError(f"{where}: this is not valid TOML: {reason}; mend that place.") from None


def record(cls: type[T], raw: object, where: str) -> T:
    """An instance of dataclass `cls` from a TOML table; UserError names a bad key."""
    if not isinstance(raw, dict):
        raise UserError(f"{where} must be a table, not {raw!r}.")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in raw:
        if key not in fields:
            raise UserError(f'{where}: unknown key "{key}".{_advice(key, fields)}')
    for name, field in fields.items():
        if name not in raw and _is_required(field):
            raise UserError(f'{where}: the key "{name}" is missing; add it.')
    return cls(**{key: value(hints[key], raw[key], f'{where}: "{key}"') for key in raw})


def value(kind: Any, raw: object, where: str) -> Any:
    """`raw` as `kind`: a scalar, a dict, a dataclass, or a tuple of one of these."""
    if get_origin(kind) is tuple:
        if not isinstance(raw, list):
            raise UserError(f"{where} must be a list, not {raw!r}.")
        inner = get_args(kind)[0]
        return tuple(value(inner, item, f"{where}, item {i}") for i, item in enumerate(raw, 1))
    if dataclasses.is_dataclass(kind):
        return record(typing.cast("type[Any]", kind), raw, where)
    if isinstance(kind, UnionType):  # X | None: TOML has no null, so a key that is there has X
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        if raw not in get_args(kind):
            raise UserError(f"{where} must be one of {', '.join(get_args(kind))}, not {raw!r}.")
        return raw
    plain = get_origin(kind) or kind
    if type(raw) is not plain:  # not isinstance: true is an int to Python, never to a reader
        raise UserError(f"{where} must be {_NAMES[plain]}, not {raw!r}.")
    return raw


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _advice(key: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(key, names) or f" Known keys: {', '.join(names)}."
