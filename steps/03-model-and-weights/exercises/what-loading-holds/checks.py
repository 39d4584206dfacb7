"""Writes small checkpoints, watches load_weight read them, and compares the predictions with it."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

import torch

from pairs import Mismatch, equal

KINDS = ("llama", "qwen2", "qwen3")


def drawn(seed):
    """A config of each kind; heads are not hidden / heads wide, and some embeddings are tied."""
    random = Random(seed)
    configs = []
    for kind in KINDS:
        kv = random.choice((1, 2, 3))
        config = {
            "model_type": kind,
            "hidden_size": random.choice((20, 28, 36)),
            "intermediate_size": random.choice((22, 26, 34)),
            "num_hidden_layers": random.choice((2, 3, 4)),
            "num_attention_heads": kv * random.choice((2, 3)),
            "num_key_value_heads": kv,
            "head_dim": random.choice((8, 16)),
            "vocab_size": random.randrange(40, 70),
            "tie_word_embeddings": random.random() < 0.5,
        }
        configs.append(config)
    return configs


def shapes(config):
    """Name and shape of each weight of a checkpoint."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = (config[f"num_{name}_heads"] * head for name in ("attention", "key_value"))
    ends = ["model.embed_tokens.weight"]
    ends += [] if config["tie_word_embeddings"] else ["lm_head.weight"]
    found = dict.fromkeys(ends, (config["vocab_size"], hidden)) | {"model.norm.weight": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        rows = {"self_attn.q_proj": q, "self_attn.k_proj": kv, "self_attn.v_proj": kv}
        sizes = {f"{name}.weight": (size, hidden) for name, size in rows.items()}
        if config["model_type"] == "qwen2":
            sizes |= {f"{name}.bias": (size,) for name, size in rows.items()}
        if config["model_type"] == "qwen3":
            sizes |= {f"self_attn.{name}_norm.weight": (head,) for name in "qk"}
        sizes |= {f"mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")}
        sizes |= {"self_attn.o_proj.weight": (hidden, q), "mlp.down_proj.weight": (hidden, inner)}
        sizes |= {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
        found |= {f"model.layers.{layer}.{name}": size for name, size in sizes.items()}
    return found


@contextmanager
def written(config, dtype):
    """A folder with all weights in this dtype."""
    from safetensors.torch import save_file

    weights = {name: torch.ones(shape, dtype=dtype) for name, shape in shapes(config).items()}
    with tempfile.TemporaryDirectory() as folder:
        save_file(weights, f"{folder}/model.safetensors")
        yield folder


def loaded(folder, wanted):
    """Shapes by name, and the bytes of all tensors that load_weight made anew."""
    from minisgl.models import load_weight, weight

    copies = []
    stacked = weight._stacked

    def watched(parts, dtype):
        out = stacked(parts, dtype)
        copies.append(out.numel() * out.element_size())
        return out

    with patch.object(weight, "_stacked", watched):
        tensors = dict(load_weight(folder, torch.device("cpu"), wanted))
    return {name: list(tensor.shape) for name, tensor in tensors.items()}, sum(copies)


def is_merged(name):
    """Whether this is a merged tensor of layer 0."""
    return name.startswith("model.layers.0.") and ("qkv_proj" in name or "gate_up_proj" in name)


def probe_merged_shapes(seed):
    runs = []
    for config in drawn(seed):
        with written(config, torch.float32) as folder:
            runs.append((config, loaded(folder, torch.float32)[0]))

    from answer import merged_shapes

    return [
        {"kind": config["model_type"], "loaded": found, "predicted": merged_shapes(config)}
        for config, found in runs
    ]


def judge_merged_shapes(seed, got):
    reasons = {
        "llama": "q has heads * head_dim rows, whatever the hidden size is",
        "qwen2": "a bias is merged as its matrix is",
        "qwen3": "the norms of q and k stay apart",
    }
    for case in got:
        right = {name: shape for name, shape in case["loaded"].items() if is_merged(name)}
        what = f"merged shapes of a {case['kind']} model ({reasons[case['kind']]})"
        if case["predicted"] != right:
            raise Mismatch(what, right, case["predicted"])
    equal([case["kind"] for case in got], list(KINDS), "kinds")


def own_bytes_of(seed, stored, wanted):
    runs = []
    for config in drawn(seed):
        with written(config, getattr(torch, stored)) as folder:
            runs.append((config, loaded(folder, getattr(torch, wanted))[1]))

    from answer import own_bytes

    return [
        {"measured": copied, "predicted": own_bytes(config, stored, wanted)}
        for config, copied in runs
    ]


def judged(got, what):
    for case in got:
        equal(case["predicted"], case["measured"], what)


def probe_bytes_copied_in_the_files_dtype(seed):
    return own_bytes_of(seed, "bfloat16", "bfloat16")


def judge_bytes_copied_in_the_files_dtype(seed, got):
    judged(got, "bytes copied (what is neither merged nor converted stays a view of the file)")


def probe_bytes_copied_to_a_wider_dtype(seed):
    return own_bytes_of(seed, "bfloat16", "float32")


def judge_bytes_copied_to_a_wider_dtype(seed, got):
    judged(got, "bytes copied from bfloat16 to float32 (a copy has the size of the wanted dtype)")


def probe_bytes_copied_to_another_dtype_of_its_size(seed):
    return own_bytes_of(seed, "bfloat16", "float16")


def judge_bytes_copied_to_another_dtype_of_its_size(seed, got):
    judged(
        got,
        "bytes copied from bfloat16 to float16 "
        "(another dtype of the same size is another number for the same bytes)",
    )


def orders(seed):
    """The weights of a model as files may hold them: by layer, by kind, and in any order."""
    random, found = Random(seed + 1), {}
    for config, name in zip(drawn(seed), ("by layer", "by kind", "shuffled"), strict=True):
        read = [[key, 4 * torch.Size(shape).numel()] for key, shape in shapes(config).items()]
        if name == "by kind":
            read.sort(key=lambda item: item[0].split(".")[-2:])
        if name == "shuffled":
            random.shuffle(read)
        found[name] = read
    return found


def waiting_bytes(read):
    """The most bytes that load_weight keeps for later each time it asks for the next tensor."""
    from minisgl.models import load_weight, weight

    most = 0

    def tensors(file, device):
        nonlocal most
        for name, size in read:
            yield name, torch.empty(size // 4)
            kept = sys._getframe(1).f_locals["waiting"]
            found = [part for parts in kept.values() for part in parts.values()]
            most = max(most, sum(part.numel() * part.element_size() for part in found))

    with (
        patch.object(weight, "_read_tensors", tensors),
        patch.object(weight, "_checkpoint_files", lambda folder: [folder]),
        tempfile.TemporaryDirectory() as folder,
    ):
        for _ in load_weight(folder, torch.device("cpu")):
            pass
    return most


def probe_bytes_that_wait(seed):
    runs = {name: (read, waiting_bytes(read)) for name, read in orders(seed).items()}

    from answer import most_waiting

    return {
        name: {"measured": most, "predicted": most_waiting([(key, size) for key, size in read])}
        for name, (read, most) in runs.items()
    }


def judge_bytes_that_wait(seed, got):
    reasons = {
        "by layer": "the last part is merged as soon as it is read",
        "by kind": "parts of several tensors can wait at once",
        "shuffled": "a tensor waits until its last part is read, wherever that stands",
    }
    for name, reason in reasons.items():
        what = f"bytes that wait, file {name} ({reason})"
        equal(got[name]["predicted"], got[name]["measured"], what)
