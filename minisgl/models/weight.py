"""Read safetensors one tensor at a time, and merge what the engine computes as one product."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from minisgl.utils.hf import download_hf_weight

_MERGE_GROUPS = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_BUFFERS = ".rotary_emb.inv_freq"  # old Llama checkpoints hold this table, which is no weight
_SLOT_NAMES = {part: (group, parts) for group, parts in _MERGE_GROUPS.items() for part in parts}


def _get_merge_info(key: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return (merged key, this part, all parts) for a key like x.q_proj.weight, else None."""
    owner, _, kind = key.rpartition(".")
    prefix, _, part = owner.rpartition(".")
    if part not in _SLOT_NAMES:
        return None
    group, parts = _SLOT_NAMES[part]
    return f"{prefix}.{group}.{kind}", part, parts


def _checkpoint_files(folder: Path) -> list[Path]:
    """Return the safetensors files of folder; those that an index names must all be there."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        files = [folder / name for name in sorted(set(_weight_map(index).values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [file.name for file in files if not file.is_file()]
    if missing or not files:
        what = f"{', '.join(missing)} is missing" if missing else "there is no .safetensors file"
        raise FileNotFoundError(f"{what} in {folder}: fetch the checkpoint again")
    return files


def _weight_map(index: Path) -> dict[str, str]:
    """Return which file holds which weight."""
    try:
        return dict(json.loads(index.read_text())["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(index, error) from None


def _damaged(file: Path, error: Exception) -> ValueError:
    return ValueError(f"{file} is damaged or only half there ({error}): fetch the checkpoint again")


def _read_tensors(file: Path, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each weight of one file; on a CPU it is a view of the file, not a copy."""
    try:
        with safe_open(file, framework="pt", device=str(device)) as shard:
            for key in shard.offset_keys():
                if not key.endswith(_BUFFERS):
                    yield key, shard.get_tensor(key)
    except SafetensorError as error:
        raise _damaged(file, error) from None


def _stacked(parts: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """Return the rows of all parts under each other, converted while they are copied.

    A spare row at the end: when the weight is freed, its packed copy fits into the hole.
    """
    rows = sum(len(part) for part in parts)
    shape = (rows + 1, *parts[0].shape[1:])
    out = torch.empty(shape, dtype=dtype, device=parts[0].device)[:rows]
    return torch.cat(parts, out=out)


def load_weight(
    model_path: str, device: torch.device, dtype: torch.dtype | None = None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) for every weight of the checkpoint, merged ones under their new name.

    model_path: a folder or a hub name. dtype: of the tensors; by default the file's. On a CPU all
    that are neither merged nor converted are views of the file. Parts of one product are kept
    until the last one was read.
    Raises FileNotFoundError or ValueError when the checkpoint is not whole.
    """
    waiting: dict[str, dict[str, torch.Tensor]] = {}
    for file in _checkpoint_files(Path(download_hf_weight(model_path))):
        for key, tensor in _read_tensors(file, device):
            info, wanted = _get_merge_info(key), dtype or tensor.dtype
            if info is None:
                yield key, tensor if tensor.dtype == wanted else _stacked([tensor], wanted)
                continue
            merged_key, part, parts = info
            found = waiting.setdefault(merged_key, {})
            found[part] = tensor
            if len(found) == len(parts):
                del waiting[merged_key]
                yield merged_key, _stacked([found[name] for name in parts], wanted)
    if waiting:
        key, found = next(iter(waiting.items()))
        raise ValueError(f"{key} can't be merged: the checkpoint holds only {', '.join(found)}")
