"""Reading weights gives the same however a checkpoint's tensors lie in its files."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from minisgl.models import load_weight

CPU = torch.device("cpu")
GROUPS = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
}


def tensors_of(layers: int, has_bias: bool) -> tuple[dict, dict]:
    """The tensors of a checkpoint, and what must be made of them."""
    generator = torch.Generator().manual_seed(layers)
    kinds = {"weight": (3,), **({"bias": ()} if has_bias else {})}
    stored = {"model.norm.weight": torch.randn(3, generator=generator)}
    wanted = dict(stored)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for group, parts in GROUPS.items():
            for kind, columns in kinds.items():
                pieces = [torch.randn(2 + i, *columns, generator=generator) for i in range(3)]
                named = dict(zip(parts, pieces, strict=False))
                stored |= {f"{at}{part}.{kind}": piece for part, piece in named.items()}
                wanted[f"{at}{group}.{kind}"] = torch.cat(list(named.values()))
    return stored, wanted


def write(folder: str, stored: dict, files: int, shuffler: random.Random) -> None:
    """Every tensor in a file of its own choice; the file's order of tensors is shuffled too."""
    shards: list[dict] = [{} for _ in range(files)]
    names = list(stored)
    shuffler.shuffle(names)
    for name in names:
        shuffler.choice(shards)[name] = stored[name]
    for i, shard in enumerate(shards):
        save_file(shard, Path(folder, f"part-{i}.safetensors"))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 11), st.booleans(), st.integers(1, 5), st.randoms())
def test_any_arrangement_gives_the_same_weights(
    layers: int, has_bias: bool, files: int, shuffler: random.Random
) -> None:
    stored, wanted = tensors_of(layers, has_bias)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, stored, files, shuffler)
        loaded = dict(load_weight(folder, CPU))
    assert sorted(loaded) == sorted(wanted)
    assert all(torch.equal(loaded[name], wanted[name]) for name in wanted)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.randoms())
def test_any_part_that_is_gone_is_noticed(layers: int, files: int, shuffler: random.Random) -> None:
    stored, _ = tensors_of(layers, has_bias=True)
    lost = shuffler.choice([name for name in stored if "_proj" in name])
    del stored[lost]
    with tempfile.TemporaryDirectory() as folder:
        write(folder, stored, files, shuffler)
        with pytest.raises(ValueError, match="can't be merged") as error:
            list(load_weight(folder, CPU))
    owner, kind = lost.rsplit(".", 1)
    group = "qkv_proj" if "self_attn" in owner else "gate_up_proj"
    assert f"{owner.rsplit('.', 1)[0]}.{group}.{kind}" in str(error.value)
