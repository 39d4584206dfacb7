"""Safetensors files, written byte for byte the same everywhere.

The safetensors library reads what this writes. It is not used for writing, since the order of a
header's keys is its own affair and a checkpoint's digest is a promise.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steplib.checkpoints.weightfiles import INDEX

Tensors = dict[str, NDArray[np.float32]]


def write_json(path: Path, value: object) -> None:
    """JSON in the order given, two spaces deep, UTF-8, one newline at the end."""
    path.write_bytes((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def write_tensors(path: Path, tensors: Tensors) -> None:
    """One safetensors file; tensors lie in the order of `tensors`."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)  # the format wants the data aligned to 8 bytes
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor, dtype="<f4").data)


def write_shards(folder: Path, tensors: Tensors, cut_after: Iterable[str]) -> None:
    """Several files with an index; a new file begins after each name of `cut_after`."""
    cuts = set(cut_after)
    shards: list[Tensors] = [{}]
    for name, tensor in tensors.items():
        shards[-1][name] = tensor
        if name in cuts:
            shards.append({})
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_tensors(folder / file, shard)
        places |= dict.fromkeys(shard, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    write_json(folder / INDEX, index)
