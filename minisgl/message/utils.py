"""Messages as plain maps, and back: what msgpack can carry, and nothing that could run code."""

from __future__ import annotations

import dataclasses
import math
import reprlib
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch

TYPE = "__type__"
"""The key that holds a type's name; every other key of a map is a field."""

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
"""What the numbers of a tensor may be."""

SCALARS = (bool, int, float, str, bytes)
"""What a map of msgpack holds as it is, beside None."""

M = TypeVar("M")


class MessageError(ValueError):
    """What is no message, or can't be one: what is wrong with it, in one sentence."""


def serialize_type(self: Any) -> dict[str, Any]:
    """Return a dataclass instance as a map of its type's name and its fields.

    Raises MessageError for what a message can't carry.
    """
    kind: type = type(self)
    return {TYPE: kind.__name__} | {
        name: _serialize_any(getattr(self, name)) for name in _hints(kind)
    }


def _serialize_any(value: Any) -> Any:
    if value is None or isinstance(value, SCALARS):
        return value
    if isinstance(value, torch.Tensor):
        return _tensor_map(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return serialize_type(value)
    if isinstance(value, list | tuple):
        return [_serialize_any(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if (
                not isinstance(key, str) or key == TYPE
            ):  # a client's map must not pass for a message
                raise MessageError(f"a map in a message can't have the key {_shown(key)}")
        return {key: _serialize_any(item) for key, item in value.items()}
    raise MessageError(f"a message can't carry a {type(value).__name__}")


def _tensor_map(tensor: torch.Tensor) -> dict[str, Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES or not tensor.is_cpu:
        raise MessageError(f"a message can't carry a tensor of {dtype} on {tensor.device}")
    data = tensor.detach().contiguous().numpy().tobytes()
    return {TYPE: "Tensor", "dtype": dtype, "shape": list(tensor.shape), "data": data}


def decode_message(base: type[M], cls_map: Mapping[str, type], data: dict[str, Any]) -> M:
    """Return the message of kind base that a map describes; raises MessageError for any other."""
    try:
        msg = deserialize_type(cls_map, data)
    except RecursionError:
        raise MessageError("the map is nested too deeply") from None
    if not isinstance(msg, base):
        raise MessageError(f"a {type(msg).__name__} is not a message by itself")
    return msg


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
    _same_keys(name, data, hints)
    values = {key: _deserialize_any(cls_map, data[key]) for key in hints}
    for key, hint in hints.items():
        if not _fits(values[key], hint):
            raise MessageError(f"{name}.{key} can't be {_shown(data[key])}")
    try:
        return cls(**values)
    except ValueError as error:
        raise MessageError(f"{name} is refused: {error}") from None


def _same_keys(name: str, data: dict[str, Any], wanted: Mapping[str, Any]) -> None:
    given = data.keys() - {TYPE}
    for wrong, what in ((wanted.keys() - given, "lacks"), (given - wanted.keys(), "doesn't have")):
        if wrong:
            raise MessageError(f"{name} {what} the field {_shown(min(map(str, wrong)))}")


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
    """Return the tensor that a map describes, in memory of its own."""
    _same_keys("Tensor", data, {"dtype": str, "shape": list, "data": bytes})
    dtype, shape, raw = data["dtype"], data["shape"], data["data"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise MessageError(f"a tensor's dtype can't be {_shown(dtype)}")
    if not _fits(shape, list[int]) or any(not 0 <= size < 2**31 for size in shape):
        raise MessageError(f"a tensor's shape can't be {_shown(shape)}")
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if len(shape) > 8 or not isinstance(raw, bytes) or len(raw) != size:
        raise MessageError(f"a tensor of {dtype} and shape {_shown(shape)} is {size} bytes")
    try:
        return torch.from_numpy(np.ndarray(shape, dtype, raw).copy())
    except (ValueError, RuntimeError) as error:  # such as (0, 2**31 - 1, 2**31 - 1, ...)
        raise MessageError(f"a tensor can't have the shape {_shown(shape)}: {error}") from None


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(hint), typing.get_args(hint)


def _fits(value: Any, hint: Any) -> bool:
    """Whether value is of the type of a field; what a list or a map holds counts too."""
    origin, inner = _parts(hint)
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


def _shown(value: Any, limit: int = 80) -> str:
    """Return a value as text that stays short, however large the value."""
    text = reprlib.repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
