"""Ops with weights and without nn.Module: attributes hold the weights, names follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import torch

_STATE_DICT: TypeAlias = dict[str, torch.Tensor]


def _concat_prefix(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


class BaseOP:
    """A step of the forward pass. Its weights are the attributes that hold tensors or other ops.

    A tensor has its attribute's name; an inner op's weights get the attribute's name and a dot in
    front. Attributes whose names begin with an underscore are not weights.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the op's output; every kind of op has its own arguments."""
        raise NotImplementedError(f"{type(self).__name__} is not called by itself")

    def _members(self) -> Iterator[tuple[str, torch.Tensor | BaseOP]]:
        for name, value in vars(self).items():
            if not name.startswith("_") and isinstance(value, torch.Tensor | BaseOP):
                yield name, value

    def state_dict(self, *, prefix: str = "", result: _STATE_DICT | None = None) -> _STATE_DICT:
        """Return every weight under its dotted name, such as model.norm.weight."""
        result = {} if result is None else result
        for name, value in self._members():
            key = _concat_prefix(prefix, name)
            if isinstance(value, BaseOP):
                value.state_dict(prefix=key, result=result)
            else:
                result[key] = value
        return result

    def load_state_dict(
        self, state_dict: _STATE_DICT, *, prefix: str = "", _internal: bool = False
    ) -> None:
        """Take this op's weights out of state_dict; its tensors, not copies, become the weights.

        Raises ValueError for a missing weight, another shape or dtype, and, on the outermost op,
        for a weight that is left over.
        """
        for name, value in self._members():
            key = _concat_prefix(prefix, name)
            if isinstance(value, BaseOP):
                value.load_state_dict(state_dict, prefix=key, _internal=True)
            else:
                setattr(self, name, _take(state_dict, key, value))
        if not _internal and state_dict:
            raise ValueError(f"weights that no op takes: {', '.join(sorted(state_dict)[:5])}")

    def process_weights_after_loading(self) -> None:
        """Bring the weights into the layout that the device computes fastest with, one by one."""
        for _, value in self._members():
            if isinstance(value, BaseOP):
                value.process_weights_after_loading()


def _take(state_dict: _STATE_DICT, key: str, like: torch.Tensor) -> torch.Tensor:
    """Remove and return the tensor called key, which must have the shape and dtype of like."""
    if key not in state_dict:
        raise ValueError(f"weight {key} is missing")
    tensor = state_dict.pop(key)
    if (tensor.shape, tensor.dtype) != (like.shape, like.dtype):
        raise ValueError(
            f"weight {key} is {tensor.dtype} {tuple(tensor.shape)}, "
            f"but the op needs {like.dtype} {tuple(like.shape)}"
        )
    return tensor


class StateLessOP(BaseOP):
    """An op without weights, whatever its attributes hold."""

    def __init__(self) -> None:
        super().__init__()

    def load_state_dict(
        self, state_dict: _STATE_DICT, *, prefix: str = "", _internal: bool = False
    ) -> None:
        """Take nothing; as the outermost op, raise ValueError when state_dict is not empty."""
        if not _internal and state_dict:
            raise ValueError(f"{type(self).__name__} has no weights, but was given some")

    def state_dict(self, *, prefix: str = "", result: _STATE_DICT | None = None) -> _STATE_DICT:
        """Return result as it is."""
        return {} if result is None else result

    def process_weights_after_loading(self) -> None:
        """Do nothing: there are no weights."""


T = TypeVar("T", bound=BaseOP)


class OPList(BaseOP, Generic[T]):
    """Several ops under the names 0, 1, 2 ..., such as the layers of a model."""

    def __init__(self, ops: list[T]) -> None:
        super().__init__()
        self.op_list = ops

    def _members(self) -> Iterator[tuple[str, torch.Tensor | BaseOP]]:
        for index, op in enumerate(self.op_list):
            yield str(index), op
