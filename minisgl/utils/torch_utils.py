"""Helpers around PyTorch: the default dtype for a block, and ranges for the profiler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def torch_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Create tensors as dtype inside the with block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def nvtx_annotate(name: str, layer_id_field: str | None = None) -> Callable[[F], F]:
    """Return a decorator that shows each call of a method as a range in NVIDIA's profiler.

    A {} in name is filled with the attribute of self that layer_id_field names. Without CUDA
    the method is returned as it is.
    """

    def decorate(fn: F) -> F:
        if not torch.cuda.is_available():
            return fn

        @functools.wraps(fn)
        def annotated(self: Any, *args: Any, **kwargs: Any) -> Any:
            label = name.format(getattr(self, layer_id_field)) if layer_id_field else name
            with torch.cuda.nvtx.range(label):
                return fn(self, *args, **kwargs)

        return annotated  # type: ignore[return-value]

    return decorate
