"""Chapter 03: reading and merging weights, and checkpoints that are not whole."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from pairs import draw, equal, error_of, public_bug, refused, truth

INDEX = "model.safetensors.index.json"
CPU = torch.device("cpu")


@contextmanager
def folder_with(*shards, index=True):
    """Probe side: a folder with one safetensors file for each dict of tensors, and their index."""
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for i, tensors in enumerate(shards):
            file = f"model-{i}.safetensors"
            save_file(
                {k: torch.as_tensor(v).clone() for k, v in tensors.items()}, f"{folder}/{file}"
            )
            names |= dict.fromkeys(tensors, file)
        if index:
            Path(folder, INDEX).write_text(json.dumps({"weight_map": names}))
        yield Path(folder)


def load(folder):
    """Probe side: all weights of a folder, as lists."""
    from minisgl.models import load_weight

    return {name: tensor.tolist() for name, tensor in load_weight(str(folder), CPU)}


def parts_of(seed):
    """The parts of one layer's merged weights; k and v are smaller than q."""
    rows = {"self_attn.q_proj": 4, "self_attn.k_proj": 2, "self_attn.v_proj": 2}
    rows |= {"mlp.gate_proj": 3, "mlp.up_proj": 3}
    parts = {}
    for i, (name, size) in enumerate(rows.items()):
        parts[f"model.layers.0.{name}.weight"] = draw(seed + 2 * i, size, 5)
        parts[f"model.layers.0.{name}.bias"] = draw(seed + 2 * i + 1, size)
    return parts


def merged(seed):
    parts, groups = parts_of(seed), {}
    for block, group, names in (
        ("self_attn", "qkv_proj", ("q_proj", "k_proj", "v_proj")),
        ("mlp", "gate_up_proj", ("gate_proj", "up_proj")),
    ):
        for kind in ("weight", "bias"):
            prefix = f"model.layers.0.{block}."
            found = [parts[f"{prefix}{name}.{kind}"] for name in names]
            groups[f"{prefix}{group}.{kind}"] = np.concatenate(found)
    return groups


def probe_parts_are_merged_in_order_however_they_arrive(seed):
    parts = parts_of(seed)
    names = list(parts)
    arrivals = {
        "one file": [names],
        "backwards": [names[::-1]],
        "a shard each": [[name] for name in names[::-1]],
        "every other": [names[1::2], names[::2]],
        "v first": [sorted(names, reverse=True)[:5], sorted(names, reverse=True)[5:]],
    }
    found = {}
    for case, shards in arrivals.items():
        with folder_with(*({name: parts[name] for name in shard} for shard in shards)) as folder:
            found[case] = load(folder)
    return found


def judge_parts_are_merged_in_order_however_they_arrive(seed, got):
    want = {name: tensor.tolist() for name, tensor in merged(seed).items()}
    equal(len(got), 5, "cases")
    for case, weights in got.items():
        equal(weights, want, f"merged weights, {case}")


def probe_a_merged_weight_has_room_for_one_more_row(seed):
    from minisgl.models import load_weight

    with folder_with(parts_of(seed)) as folder:
        made = dict(load_weight(str(folder), CPU))
    return {
        name: [tensor.untyped_storage().nbytes(), 4 * tensor[:1].numel() + 4 * tensor.numel()]
        for name, tensor in made.items()
    }


def judge_a_merged_weight_has_room_for_one_more_row(seed, got):
    equal(sorted(got), sorted(merged(seed)), "names")
    for name, (size, want) in got.items():
        equal(size, want, f"bytes of {name}: its rows and a spare one")


def probe_merged_weights_of_different_layers_are_kept_apart(seed):
    tensors = {
        f"model.layers.{layer}.self_attn.{part}.weight": torch.full((1, 1), 10.0 * layer + i)
        for i, part in enumerate(("q_proj", "k_proj", "v_proj"))
        for layer in (0, 1, 10)
    }
    with folder_with(tensors) as folder:
        return load(folder)


def judge_merged_weights_of_different_layers_are_kept_apart(seed, got):
    want = {
        f"model.layers.{layer}.self_attn.qkv_proj.weight": [[10.0 * layer + i] for i in range(3)]
        for layer in (0, 1, 10)
    }
    equal(got, want, "merged weights by layer")


def probe_other_weights_keep_name_dtype_and_values(seed):
    from minisgl.models import load_weight

    x = torch.tensor(draw(seed, 3, 2))
    tensors = {
        "lm_head.weight": x,
        "model.norm.weight": x[0].bfloat16(),
        "model.layers.0.self_attn.o_proj.weight": x.half(),
        "model.layers.0.self_attn.q_norm.weight": x[1],
        "model.layers.0.mlp.down_proj.bias": x[2],
        "q_proj": x[:1],
    }
    with folder_with(tensors) as folder:
        loaded = dict(load_weight(str(folder), CPU))
        return {name: [str(t.dtype), t.float().tolist()] for name, t in loaded.items()}


def judge_other_weights_keep_name_dtype_and_values(seed, got):
    x = torch.tensor(draw(seed, 3, 2))
    want = {
        "lm_head.weight": ["torch.float32", x],
        "model.norm.weight": ["torch.bfloat16", x[0].bfloat16()],
        "model.layers.0.self_attn.o_proj.weight": ["torch.float16", x.half()],
        "model.layers.0.self_attn.q_norm.weight": ["torch.float32", x[1]],
        "model.layers.0.mlp.down_proj.bias": ["torch.float32", x[2]],
        "q_proj": ["torch.float32", x[:1]],
    }
    want = {name: [dtype, t.float().tolist()] for name, (dtype, t) in want.items()}
    equal(got, want, "dtype and values by name")


def probe_an_index_says_which_files_count(seed):
    one, two = {"a": torch.tensor([1.0])}, {"b": torch.tensor([2.0])}
    found = {}
    with folder_with(one, two) as folder:
        index = {"weight_map": {"a": "model-0.safetensors"}}
        found["both in the index"] = load(folder)
        (folder / INDEX).write_text(json.dumps(index))
        found["one in the index"] = load(folder)
        (folder / INDEX).unlink()
        found["no index"] = load(folder)
    return found


def judge_an_index_says_which_files_count(seed, got):
    both = {"a": [1.0], "b": [2.0]}
    want = {"both in the index": both, "one in the index": {"a": [1.0]}, "no index": both}
    equal(got, want, "weights")


def probe_weights_are_handed_on_one_by_one(seed):
    from minisgl.models import load_weight

    with folder_with({"a": torch.ones(2), "b": torch.ones(2)}, {"c": torch.ones(2)}) as folder:
        opened = []
        (folder / "model-1.safetensors").write_bytes(b"damaged")
        weights = load_weight(str(folder), CPU)
        for _ in range(2):
            opened.append(next(weights)[0])
        return {"first": sorted(opened), "then": error_of(lambda: next(weights))}


def judge_weights_are_handed_on_one_by_one(seed, got):
    equal(got["first"], ["a", "b"], "weights before the second file was opened")
    refused(got["then"], "the second file", "model-1.safetensors", kind="ValueError")


def probe_missing_files_are_named(seed):
    shards = [{name: torch.ones(1)} for name in "abc"]
    with folder_with(*shards) as folder:
        (folder / "model-1.safetensors").unlink()
        found = {"one": error_of(lambda: load(folder))}
        (folder / "model-2.safetensors").unlink()
        found["two"] = error_of(lambda: load(folder))
    with folder_with() as folder:
        (folder / INDEX).unlink()
        found["all"] = error_of(lambda: load(folder))
        found["folder"] = str(folder)
    return found


def judge_missing_files_are_named(seed, got):
    again = "fetch the checkpoint again"
    refused(got["one"], "one missing", "model-1.safetensors is", again, kind="FileNotFoundError")
    refused(got["two"], "two missing", "model-1.safetensors, model-2.safetensors", again)
    refused(got["all"], "an empty folder", "no .safetensors file", got["folder"], again)


DAMAGE = {
    "cut in the data": lambda data: data[:-3],
    "cut in the header": lambda data: data[:20],
    "empty": lambda data: b"",
    "a page that says 404": lambda data: b"<html>404</html>",
    "a pointer to large storage": lambda data: b"version https://git-lfs.github.com/spec/v1\n",
    "another header": lambda data: data[:8] + b"x" * (len(data) - 8),
}


def probe_a_damaged_file_is_named(seed):
    errors = {}
    for case, damage in DAMAGE.items():
        with folder_with({"a": torch.ones(8)}, {"b": torch.ones(8)}) as folder:
            file = folder / "model-1.safetensors"
            file.write_bytes(damage(file.read_bytes()))
            errors[case] = error_of(lambda f=folder: load(f))
    return errors


def judge_a_damaged_file_is_named(seed, got):
    equal(sorted(got), sorted(DAMAGE), "cases")
    for case, error in got.items():
        words = ("model-1.safetensors", "damaged or only half there", "fetch the checkpoint again")
        refused(error, case, *words, kind="ValueError")


def probe_a_damaged_index_is_named(seed):
    errors = {}
    for text in ('{"weight_map": {"a": "mod', "", "null", "{}", '{"weight_map": 3}'):
        with folder_with({"a": torch.ones(8)}) as folder:
            (folder / INDEX).write_text(text)
            errors[text] = error_of(lambda f=folder: load(f))
    return errors


def judge_a_damaged_index_is_named(seed, got):
    equal(len(got), 5, "cases")
    for text, error in got.items():
        words = (INDEX, "damaged or only half there", "fetch the checkpoint again")
        refused(error, f"an index with the text {text!r}", *words, kind="ValueError")


def probe_a_part_without_its_others_is_named(seed):
    prefix = "model.layers.1."
    cases = {
        "q alone": ["self_attn.q_proj.weight"],
        "no v": ["self_attn.k_proj.weight", "self_attn.q_proj.weight"],
        "up alone": ["mlp.up_proj.weight"],
        "a bias too few": [f"self_attn.{p}_proj.weight" for p in "qkv"] + ["self_attn.q_proj.bias"],
    }
    errors = {}
    for case, names in cases.items():
        with folder_with({prefix + name: torch.ones(1, 1) for name in names}) as folder:
            errors[case] = error_of(lambda f=folder: load(f))
    return errors


def judge_a_part_without_its_others_is_named(seed, got):
    qkv, gate_up = "model.layers.1.self_attn.qkv_proj", "model.layers.1.mlp.gate_up_proj"
    refused(got["q alone"], "q without k and v", f"{qkv}.weight", "only q_proj", kind="ValueError")
    refused(got["no v"], "q and k without v", f"{qkv}.weight", "q_proj", "k_proj")
    refused(got["up alone"], "up without gate", f"{gate_up}.weight", "only up_proj")
    refused(got["a bias too few"], "a bias for q only", f"{qkv}.bias", "only q_proj")


def probe_tables_that_old_checkpoints_hold_are_passed_over(seed):
    tensors = {
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
        "model.norm.weight": torch.ones(1),
    }
    with folder_with(tensors) as folder:
        return load(folder)


def judge_tables_that_old_checkpoints_hold_are_passed_over(seed, got):
    equal(got, {"model.norm.weight": [1.0]}, "weights")


def probe_weights_are_converted_to_the_asked_dtype(seed):
    from minisgl.models import load_weight

    found = {}
    stored = {name: torch.tensor(w).bfloat16() for name, w in parts_of(seed).items()}
    with folder_with({**stored, "model.norm.weight": torch.tensor(draw(seed, 5))}) as folder:
        for name, dtype in (("file", None), ("float32", torch.float32), ("half", torch.float16)):
            weights = load_weight(str(folder), CPU, dtype)
            found[name] = {key: [str(t.dtype), t.float().tolist()] for key, t in weights}
    return found


def judge_weights_are_converted_to_the_asked_dtype(seed, got):
    stored = {name: torch.tensor(w).bfloat16() for name, w in merged(seed).items()}
    stored["model.norm.weight"] = torch.tensor(draw(seed, 5))
    for name, dtype in (("file", None), ("float32", torch.float32), ("half", torch.float16)):
        want = {key: tensor.to(dtype or tensor.dtype) for key, tensor in stored.items()}
        want = {key: [str(t.dtype), t.float().tolist()] for key, t in want.items()}
        equal(got[name], want, f"dtype and values, asked for {name}")


@public_bug("B06")
def probe_weights_share_no_memory_with_each_other_and_the_file_stays_as_it_is(seed):
    from minisgl.models import load_weight

    parts = parts_of(seed)
    with folder_with({**parts, "model.norm.weight": draw(seed, 5)}) as folder:
        file = folder / "model-0.safetensors"
        before = file.read_bytes()
        loaded = dict(load_weight(str(folder), CPU))
        for i, tensor in enumerate(loaded.values()):
            tensor.fill_(float(i))
        mixed = [name for i, (name, t) in enumerate(loaded.items()) if not torch.all(t == i)]
        return {"weights": len(loaded), "mixed": mixed, "file": file.read_bytes() == before}


def judge_weights_share_no_memory_with_each_other_and_the_file_stays_as_it_is(seed, got):
    equal(got, {"weights": 5, "mixed": [], "file": True}, "after each weight was overwritten")


def probe_the_asked_device_is_where_tensors_are_read_to(seed):
    import safetensors

    from minisgl.models import weight

    asked = []

    def noting(file, framework, device):
        asked.append([Path(file).name, framework, device])
        return safetensors.safe_open(file, framework=framework, device="cpu")

    with folder_with({"a": torch.ones(1)}) as folder, patch.object(weight, "safe_open", noting):
        dict(weight.load_weight(str(folder), torch.device("cuda", 1)))
    return asked


def judge_the_asked_device_is_where_tensors_are_read_to(seed, got):
    equal(got, [["model-0.safetensors", "pt", "cuda:1"]], "how the file was opened")


def probe_weights_of_a_hub_name_are_downloaded_first(seed):
    import huggingface_hub

    from minisgl.models import load_weight
    from minisgl.utils import download_hf_weight

    asked = []
    with folder_with({"a": torch.ones(1)}) as folder:

        def download(name, **kwargs):
            asked.append([name, sorted(kwargs.get("allow_patterns", []))])
            return str(folder)

        with patch.object(huggingface_hub, "snapshot_download", download):
            names = [name for name, _ in load_weight("someone/model", CPU)]
            same = download_hf_weight(str(folder)) == str(folder)
    return {"asked": asked, "names": names, "same": same}


def judge_weights_of_a_hub_name_are_downloaded_first(seed, got):
    name, patterns = got["asked"][0]
    equal([len(got["asked"]), name], [1, "someone/model"], "downloads; a folder needs none")
    truth("*.safetensors" in patterns, "safetensors files are downloaded", patterns)
    truth(not any(p in ("*", "*.bin", "*.pt") for p in patterns), "pickles are not", patterns)
    equal([got["names"], got["same"]], [["a"], True], "weights; a folder is left as it is")
