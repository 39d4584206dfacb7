"""The thin layer between the engine and the device: real on CUDA, no-ops on a CPU."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch


class Event(Protocol):
    """A mark in a stream's work that the CPU, or another stream, can wait for."""

    def record(self, stream: torch.cuda.Stream | None = None) -> None: ...
    def synchronize(self) -> None: ...


class _DoneEvent:
    """On a CPU an operation has finished when its call returns, so there is nothing to wait for."""

    def record(self, stream: torch.cuda.Stream | None = None) -> None:
        pass

    def synchronize(self) -> None:
        pass


def default_device() -> torch.device:
    """Return the current CUDA device where there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def new_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return a new stream of device; None on a CPU, which has no streams."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


def use_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """Return a with block in which work is queued on stream."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def new_event(device: torch.device) -> Event:
    """Return a new event for work on device."""
    return torch.cuda.Event() if device.type == "cuda" else _DoneEvent()  # type: ignore[no-untyped-call]


def pin(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a CPU tensor that can be copied to device without the CPU waiting for the copy."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def synchronize(device: torch.device) -> None:
    """Wait until all work on device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free_memory(device: torch.device) -> int:
    """Return the bytes that can still be taken on device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # macOS does not say what is free: count a quarter of it all
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
