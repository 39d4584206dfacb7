"""Safetensors files written byte for byte the same everywhere, and checked without reading them.

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

Tensors = dict[str, NDArray[np.float32]]
INDEX = "model.safetensors.index.json"


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


def problem_in(folder: Path) -> str | None:
    """What is wrong with the folder's weight files, as the end of a sentence; None when sound."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return "it has no .safetensors file"
    held: dict[str, set[str]] = {}
    for file in files:
        names, trouble = _names_in(file)
        if trouble:
            return trouble
        held[file.name] = names
    return _problem_in_index(folder / INDEX, held)


def _names_in(file: Path) -> tuple[set[str], str | None]:
    """The tensors that the file's header lists, and what is wrong when the size disagrees."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8).ljust(8, b"\0"))
        try:
            header = json.loads(stream.read(min(length, size)))
            header.pop("__metadata__", None)
            wanted = 8 + length + max(entry["data_offsets"][1] for entry in header.values())
        except (ValueError, KeyError, TypeError, AttributeError):
            return set(), f"{file.name} has no readable header"
    if size != wanted:
        return set(), f"{file.name} has {size:,} bytes and should have {wanted:,}"
    return set(header), None


def _problem_in_index(index: Path, held: dict[str, set[str]]) -> str | None:
    if not index.exists():
        return None if len(held) == 1 else f"{index.name} is missing"
    try:
        places = json.loads(index.read_bytes())["weight_map"]
    except (ValueError, KeyError, TypeError):
        return f"{index.name} can't be read"
    for name, file in places.items():
        if name not in held.get(file, set()):
            return f"{index.name} names {name} in {file}, where it is not"
    for file, names in held.items():
        if missing := sorted(names - places.keys()):
            return f"{index.name} does not name {missing[0]}, which {file} holds"
    return None
