"""Chapter 03: what the engine reads from a config, in every style that configs come in."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch

from pairs import equal, error_of, public_bug, refused

SIZES = {
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "vocab_size": 99,
    "intermediate_size": 80,
    "rms_norm_eps": 1e-3,
    "max_position_embeddings": 128,
    "hidden_act": "silu",
    "rope_theta": 7777.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def read(kind, **changes):
    """Probe side: the ModelConfig, as a dict, of SIZES with changes; a change to ... drops a key.

    kind: a model type, whose config class of transformers fills in what is absent; or "raw", which
    knows no defaults and keeps each key where it stands.
    """
    from transformers import AutoConfig

    from minisgl.models import ModelConfig

    given = {key: value for key, value in {**SIZES, **changes}.items() if value is not ...}
    if kind == "raw":
        config = SimpleNamespace(**{"model_type": "mistral", "architectures": None, **given})
    else:
        config = AutoConfig.for_model(kind, **given)
    return dataclasses.asdict(ModelConfig.from_hf(config))


def probe_sizes_and_switches_are_read_by_their_names(seed):
    return read(
        "llama",
        architectures=["LlamaForCausalLM"],
        hidden_act="gelu",
        tie_word_embeddings=True,
        head_dim=24,
    )


def judge_sizes_and_switches_are_read_by_their_names(seed, got):
    want = {
        "num_layers": 4,
        "num_qo_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 24,
        "hidden_size": 64,
        "vocab_size": 99,
        "intermediate_size": 80,
        "rms_norm_eps": 1e-3,
        "rotary_config": {
            "head_dim": 24,
            "rotary_dim": 24,
            "max_position": 128,
            "base": 7777.0,
            "scaling": None,
        },
        "hidden_act": "gelu",
        "tie_word_embeddings": True,
        "num_experts": 0,
        "num_experts_per_tok": 0,
        "moe_intermediate_size": 0,
        "norm_topk_prob": False,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "qkv_bias": False,
        "o_bias": False,
        "mlp_bias": False,
        "qk_norm": False,
        "layer_windows": [None] * 4,
    }
    equal({key: got.get(key) for key in want}, want, "the model's config")


def probe_a_bare_config_has_as_many_kv_heads_as_heads_and_no_switches(seed):
    bare = read("raw", num_key_value_heads=..., architectures=...)
    null = read("raw", num_key_value_heads=None)
    names = ("tie_word_embeddings", "qkv_bias", "o_bias", "mlp_bias", "architectures")
    return {"heads": [bare["num_kv_heads"], null["num_kv_heads"]], "rest": [bare[n] for n in names]}


def judge_a_bare_config_has_as_many_kv_heads_as_heads_and_no_switches(seed, got):
    equal(got["heads"], [4, 4], "kv heads: absent, null")
    equal(got["rest"][1:], [False, False, False, []], "biases, architectures")


@public_bug("B01")
def probe_head_dim_is_the_quotient_unless_the_config_gives_one(seed):
    sizes = {}
    for kind in ("raw", "llama", "mistral", "qwen2"):
        cases = [read(kind, head_dim=given) for given in (..., None, 32)]
        sizes[kind] = [
            [c["head_dim"], c["rotary_config"]["head_dim"], c["rotary_config"]["rotary_dim"]]
            for c in cases
        ]
    return sizes


def judge_head_dim_is_the_quotient_unless_the_config_gives_one(seed, got):
    for kind, sizes in got.items():
        want = [[16] * 3, [16] * 3, [32] * 3]
        equal(
            sizes, want, f"head_dim of the config, its rope, rotary_dim: absent, null, 32 ({kind})"
        )


@public_bug("B03")
def probe_the_rope_base_is_found_in_either_style(seed):
    old = {"rope_theta": 1000000, "rope_scaling": None}
    new = {"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 1000000}}
    return {
        f"{kind}, {style}": read(kind, **keys)["rotary_config"]
        for kind in ("raw", "llama", "mistral", "qwen2", "qwen3")
        for style, keys in (("transformers 4", old), ("transformers 5", new))
    }


def judge_the_rope_base_is_found_in_either_style(seed, got):
    equal(len(got), 10, "cases")
    for case, rope in got.items():
        equal([rope["base"], rope["scaling"]], [1e6, None], f"base and scaling, {case}")


@public_bug("B03")
def probe_without_a_rope_base_there_is_an_error_or_transformers_own_default(seed):
    neither = {"rope_theta": ..., "rope_scaling": None}
    null = {"rope_theta": None, "rope_parameters": {"rope_type": "default"}}
    return {
        "errors": [error_of(lambda k=k: read("raw", **k)) for k in (neither, null)],
        "llama": read("llama", **neither)["rotary_config"]["base"],
    }


def judge_without_a_rope_base_there_is_an_error_or_transformers_own_default(seed, got):
    for what, error in zip(("no key", "null and no base"), got["errors"], strict=True):
        refused(error, what, "rope_theta", "rope_parameters", kind="ValueError")
    equal(got["llama"], 10000.0, "what transformers documents for a Llama without the key")


@public_bug("B05")
def probe_llama3_scaling_is_found_in_either_style(seed):
    styles = {
        "transformers 4": {"rope_scaling": LLAMA3},
        "old key": {"rope_scaling": {**LLAMA3, "type": "llama3", "rope_type": ...}},
        "transformers 5": {"rope_theta": ..., "rope_parameters": {**LLAMA3, "rope_theta": 7777.0}},
    }
    found = {}
    for name, keys in styles.items():
        for key in ("rope_scaling", "rope_parameters"):
            if key in keys:
                keys[key] = {k: v for k, v in keys[key].items() if v is not ...}
        found[name] = [read(kind, **keys)["rotary_config"] for kind in ("raw", "llama")]
    return found


def judge_llama3_scaling_is_found_in_either_style(seed, got):
    equal(len(got), 3, "styles")
    for style, ropes in got.items():
        for rope, kind in zip(ropes, ("raw", "llama"), strict=True):
            equal(rope["base"], 7777.0, f"base, {style}, {kind}")
            scaling = {key: rope["scaling"].get(key) for key in LLAMA3}
            equal(scaling, LLAMA3, f"scaling, {style}, {kind}")


def probe_other_rope_types_are_refused_by_name(seed):
    errors = {}
    for kind in ("yarn", "linear", "dynamic", "longrope"):
        parameters = {"rope_theta": 1e4, "rope_type": kind, "factor": 2.0}
        errors[f"{kind} 5"] = error_of(lambda p=parameters: read("raw", rope_parameters=p))
        old = {"type": kind, "factor": 2.0}
        errors[f"{kind} 4"] = error_of(lambda o=old: read("raw", rope_scaling=o))
        if kind != "longrope":  # for which transformers itself wants more keys
            errors[f"{kind} of llama"] = error_of(lambda o=old: read("llama", rope_scaling=o))
    return errors


def judge_other_rope_types_are_refused_by_name(seed, got):
    equal(len(got), 11, "cases")
    for case, error in got.items():
        name = repr(case.split()[0])
        refused(error, case, name, "default", "llama3", kind="ValueError")


def probe_part_of_the_channels_may_turn(seed):
    parameters = {"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 0.25}
    ropes = [
        read("raw", partial_rotary_factor=0.5),
        read("raw", rope_theta=..., rope_parameters=parameters),
        read("raw", partial_rotary_factor=None),
    ]
    return [[c["rotary_config"]["rotary_dim"], c["rotary_config"]["scaling"]] for c in ropes]


def judge_part_of_the_channels_may_turn(seed, got):
    equal(got, [[8, None], [4, None], [16, None]], "rotary_dim and scaling: half, quarter, null")


def probe_quantized_checkpoints_are_refused_by_name(seed):
    schemes = ({"quant_method": "gptq", "bits": 4}, {"quant_method": "fp8"}, {})
    return [error_of(lambda s=s: read("raw", quantization_config=s)) for s in schemes]


def judge_quantized_checkpoints_are_refused_by_name(seed, got):
    for name, error in zip(("gptq", "fp8", ""), got, strict=True):
        words = ("quantized", name, "original weights")
        refused(error, f"a checkpoint quantized by {name}", *words, kind="ValueError")


BIASES = {
    "llama": ({}, [False, False, False]),
    "llama with attention_bias": ({"attention_bias": True}, [True, True, False]),
    "llama with mlp_bias": ({"mlp_bias": True}, [False, False, True]),
    "qwen2": ({}, [True, False, False]),
    "qwen3": ({}, [False, False, False]),
    "qwen3 with attention_bias": ({"attention_bias": True}, [True, True, False]),
    "mistral": ({}, [False, False, False]),
}


def probe_each_family_has_its_biases_and_norms(seed):
    found = {}
    for case, (changes, _) in BIASES.items():
        config = read(case.split()[0], **changes)
        biases = [config[f"{name}_bias"] for name in ("qkv", "o", "mlp")]
        found[case] = [biases, config["qk_norm"]]
    return found


def judge_each_family_has_its_biases_and_norms(seed, got):
    for case, (_, biases) in BIASES.items():
        equal(got[case][0], biases, f"biases on qkv, o and mlp, {case}")
        equal(got[case][1], case.startswith("qwen3"), f"norms of q and k, {case}")


W, F = 4, None
MIXED = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
WINDOWS = (
    ("mistral", {"sliding_window": 4}, [W] * 4),
    ("mistral", {"sliding_window": None}, [F] * 4),
    ("llama", {"sliding_window": 4}, [F] * 4),
    ("llama", {}, [F] * 4),
    ("qwen2", {"sliding_window": 4, "use_sliding_window": False}, [F] * 4),
    (
        "qwen2",
        {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 3},
        [F, F, F, W],
    ),
    (
        "qwen3",
        {"sliding_window": 4, "use_sliding_window": True, "layer_types": MIXED},
        [W, F, W, F],
    ),
    ("raw", {"sliding_window": 4, "layer_types": MIXED}, [W, F, W, F]),
    ("raw", {"sliding_window": 4}, [W] * 4),
    ("raw", {"sliding_window": None, "layer_types": MIXED}, [F] * 4),
    ("raw", {"sliding_window": 4, "use_sliding_window": False, "layer_types": MIXED}, [F] * 4),
    ("raw", {"sliding_window": 0}, [F] * 4),
)


@public_bug("B10")
def probe_each_layer_has_its_window_or_sees_everything(seed):
    return [read(kind, **changes)["layer_windows"] for kind, changes, _ in WINDOWS]


def judge_each_layer_has_its_window_or_sees_everything(seed, got):
    for (kind, changes, want), windows in zip(WINDOWS, got, strict=True):
        equal(windows, want, f"windows by layer of {kind} with {changes}")


def probe_experts_are_counted(seed):
    from minisgl.models import ModelConfig

    experts = {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "norm_topk_prob": True,
    }
    config = read("qwen3_moe", **experts)
    raw = {"model_type": "llama", "architectures": None, **SIZES}
    moe, dense = (ModelConfig.from_hf(SimpleNamespace(**raw, **extra)) for extra in (experts, {}))
    return [[config[name] for name in experts], config["qk_norm"], moe.is_moe, dense.is_moe]


def judge_experts_are_counted(seed, got):
    equal(got, [[8, 2, 24, True], True, True, False], "experts, q and k norms, is_moe")


@public_bug("B21")
def probe_a_checkpoints_dtype_may_be_named_in_any_style_or_not_at_all(seed):
    """The engine computes in the dtype of its own settings, so the model is the same each time.

    Its weights come as the file has them, whatever the config says; whoever loads converts them.
    """
    from safetensors.torch import save_file

    from minisgl.models import ModelConfig, load_weight
    from minisgl.utils import cached_load_hf_config

    found = []
    for named in ({"torch_dtype": "float32"}, {"dtype": "float32"}, {}, {"dtype": "bfloat16"}):
        with tempfile.TemporaryDirectory() as folder:
            config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SIZES}
            Path(folder, "config.json").write_text(json.dumps({**config, **named}))
            save_file({"x": torch.zeros(1)}, f"{folder}/model.safetensors")
            read = dataclasses.asdict(ModelConfig.from_hf(cached_load_hf_config(folder)))
            weights = dict(load_weight(folder, torch.device("cpu")))
            found.append([read, str(weights["x"].dtype)])
    return found


def judge_a_checkpoints_dtype_may_be_named_in_any_style_or_not_at_all(seed, got):
    equal(got[0][0]["num_layers"], 4, "layers of the first config")
    for style, (config, dtype) in zip(
        ("torch_dtype", "dtype", "neither", "other"), got, strict=True
    ):
        equal(config, got[0][0], f"the model's config, {style}")
        equal(dtype, "torch.float32", f"dtype of a weight, {style}")


def probe_biases_and_norms_are_left_out_unless_named(seed):
    from minisgl.models import ModelConfig

    known = {field.name: field.default for field in dataclasses.fields(ModelConfig)}
    return {name: known[name] for name in ("qkv_bias", "o_bias", "mlp_bias", "qk_norm")}


def judge_biases_and_norms_are_left_out_unless_named(seed, got):
    names = ("qkv_bias", "o_bias", "mlp_bias", "qk_norm")
    equal(got, dict.fromkeys(names, False), "defaults of the switches")
