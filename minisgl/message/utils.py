"""Messages as plain maps, and back: what msgpack can carry, and nothing that could run code."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

TYPE = "__type__"
"""The key that holds a type's name; every other key of a map is a field."""


class MessageError(ValueError):
    """What was received is not a message: what is wrong with it, in one sentence."""


def serialize_type(self: Any) -> dict[str, Any]:
    """Return a dataclass instance as a map of its type's name and its fields."""
    fields = dataclasses.fields(self)
    return {TYPE: type(self).__name__} | {
        field.name: _serialize_any(getattr(self, field.name)) for field in fields
    }


def _serialize_any(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        array = value.contiguous().numpy()
        shape = list(array.shape)
        return {TYPE: "Tensor", "dtype": array.dtype.name, "shape": shape, "data": array.tobytes()}
    if dataclasses.is_dataclass(value):
        return serialize_type(value)
    if isinstance(value, list | tuple):
        return [_serialize_any(item) for item in value]
    if isinstance(value, dict):
        return {key: _serialize_any(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    raise TypeError(f"a message can't carry a {type(value).__name__}")


def deserialize_type(cls_map: Mapping[str, type], data: dict[str, Any]) -> Any:
    """Return the instance that a map describes; its type must be one of cls_map, by name.

    Raises MessageError for anything else than what serialize_type makes: an unknown type, a
    missing or an extra field, a value of another type than the field's, or one that is refused.
    """
    if not isinstance(data, dict) or TYPE not in data:
        raise MessageError(f"a message is a map with the key {TYPE!r}, not {_shown(data)}")
    name = data[TYPE]
    if not isinstance(name, str) or name not in cls_map:
        raise MessageError(f"there is no message type {_shown(name)}")
    cls = cls_map[name]
    hints = _hints(cls)
    given = data.keys() - {TYPE}
    for wrong, what in ((hints.keys() - given, "lacks"), (given - hints.keys(), "doesn't have")):
        if wrong:
            raise MessageError(f"{name} {what} the field {_shown(min(map(str, wrong)))}")
    values = {key: _deserialize_any(cls_map, data[key]) for key in hints}
    for key, hint in hints.items():
        if not _fits(values[key], hint):
            raise MessageError(f"{name}.{key} can't be {_shown(data[key])}")
    try:
        return cls(**values)
    except ValueError as error:
        raise MessageError(f"{name} is refused: {error}") from None


def _deserialize_any(cls_map: Mapping[str, type], data: Any) -> Any:
    if isinstance(data, list):
        return [_deserialize_any(cls_map, item) for item in data]
    if not isinstance(data, dict):
        return data
    if data.get(TYPE) == "Tensor":
        return _tensor(data)
    if TYPE in data:
        return deserialize_type(cls_map, data)
    return {key: _deserialize_any(cls_map, item) for key, item in data.items()}


def _tensor(data: dict[str, Any]) -> torch.Tensor:
    try:
        array = np.frombuffer(data["data"], dtype=np.dtype(data["dtype"]))
        return torch.from_numpy(array.reshape(data["shape"]).copy())
    except (KeyError, TypeError, ValueError) as error:
        raise MessageError(f"a tensor can't be read: {error}") from None


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _fits(value: Any, hint: Any) -> bool:
    """Whether value is of the type of a field; what a list or a map holds counts too."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, kind) for kind in inner)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(key, inner[0]) and _fits(item, inner[1]) for key, item in value.items()
        )
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _shown(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
