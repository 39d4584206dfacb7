"""Whether a checkpoint's weight files are whole, told from their headers alone."""

from __future__ import annotations

import json
import struct
from pathlib import Path

INDEX = "model.safetensors.index.json"


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
