"""Chapter 00: each part of the minimal engine against float64 formulas, and the whole on small
made-up checkpoints of the Qwen2.5 kind (bias) and the Qwen3 kind (q_norm and k_norm).
"""

from __future__ import annotations

import json
import math
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch

from pairs import close, draw, equal, error_of, public_bug, refused, truth

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SMALL = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 29,
    "rms_norm_eps": 1e-3,
    "rope_theta": 777.0,
    "tie_word_embeddings": False,
}
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def make_weights(seed, config, bias=False, qk_norm=False):
    """Random weights of a small decoder by their names in a checkpoint."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = (config[f"num_{name}_heads"] * head for name in ("attention", "key_value"))
    vocab = config["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "lm_head.weight": (vocab, hidden)}
    shapes["model.norm.weight"] = (hidden,)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        rows = {"self_attn.q_proj": q, "self_attn.k_proj": kv, "self_attn.v_proj": kv}
        for part, size in {**rows, "mlp.gate_proj": inner, "mlp.up_proj": inner}.items():
            shapes[f"{name}{part}.weight"] = (size, hidden)
            if bias and part in rows:
                shapes[f"{name}{part}.bias"] = (size,)
        shapes[f"{name}self_attn.o_proj.weight"] = (hidden, q)
        shapes[f"{name}mlp.down_proj.weight"] = (hidden, inner)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{name}{norm}.weight"] = (hidden,)
        for norm in ("q_norm", "k_norm") if qk_norm else ():
            shapes[f"{name}self_attn.{norm}.weight"] = (head,)
    return {
        name: draw(seed + i, *shape) / (shape[-1] ** 0.5 if len(shape) == 2 else 1)
        for i, (name, shape) in enumerate(shapes.items())
    }


@contextmanager
def written(config, *shards):
    """A model folder with the config and one safetensors file for each dict of weights."""
    from safetensors.numpy import save_file

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        for i, weights in enumerate(shards):
            save_file(weights, str(Path(folder, f"model-{i}.safetensors")))
        yield folder


def frequencies(base, size):
    return base ** (-np.arange(0, size, 2, dtype=np.float64) / size)


def llama3_frequencies(rope, size):
    """Band by band: short waves are kept, long ones slowed, those between blended."""
    factor, length = rope["factor"], rope["original_max_position_embeddings"]
    long, short = length / rope["low_freq_factor"], length / rope["high_freq_factor"]
    result = []
    for freq in frequencies(rope["rope_theta"], size):
        wave = 2 * math.pi / freq
        blend = (length / wave - rope["low_freq_factor"]) / (
            rope["high_freq_factor"] - rope["low_freq_factor"]
        )
        middle = (1 - blend) * freq / factor + blend * freq
        result.append(freq if wave < short else freq / factor if wave > long else middle)
    return np.array(result)


def norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def rotated(x, angles):
    """x: (tokens, heads, d) as complex numbers x[i] + i x[i + d/2], turned by angles."""
    half = x.shape[-1] // 2
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attention(q, k, v):
    """One query and one head at a time; the new queries are the newest of all tokens."""
    new, total, group = len(q), len(k), q.shape[1] // k.shape[1]
    out = np.empty(q.shape)
    for i in range(new):
        seen = total - new + i + 1
        for h in range(q.shape[1]):
            scores = k[:seen, h // group] @ q[i, h] / math.sqrt(q.shape[-1])
            share = np.exp(scores - scores.max())
            out[i, h] = share / share.sum() @ v[:seen, h // group]
    return out.reshape(new, -1)


def reference(config, w, ids):
    """The logits after ids, in float64."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in w.items()}
    eps, head = config["rms_norm_eps"], config["head_dim"]
    angles = np.arange(len(ids))[:, None] * frequencies(config["rope_theta"], head)
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        normed = norm(x, w[name + "input_layernorm.weight"], eps)
        q, k, v = (
            (
                normed @ w[f"{name}self_attn.{p}_proj.weight"].T
                + w.get(f"{name}self_attn.{p}_proj.bias", 0.0)
            ).reshape(len(ids), -1, head)
            for p in "qkv"
        )
        if name + "self_attn.q_norm.weight" in w:
            q = norm(q, w[name + "self_attn.q_norm.weight"], eps)
            k = norm(k, w[name + "self_attn.k_norm.weight"], eps)
        mixed = attention(rotated(q, angles), rotated(k, angles), v)
        x = x + mixed @ w[name + "self_attn.o_proj.weight"].T
        normed = norm(x, w[name + "post_attention_layernorm.weight"], eps)
        gate = normed @ w[name + "mlp.gate_proj.weight"].T
        up = normed @ w[name + "mlp.up_proj.weight"].T
        x = x + gate / (1 + np.exp(-gate)) * up @ w[name + "mlp.down_proj.weight"].T
    return norm(x[-1], w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def logits_of(config, *shards):
    """Probe side: the engine's logits after PROMPT for a checkpoint written on the spot."""
    from minimal_engine import MinimalEngine

    with written(config, *shards) as folder:
        return MinimalEngine(folder).forward(PROMPT, {}).tolist()


def probe_weights_of_all_shards_are_read_as_float32(seed):
    from safetensors.torch import save_file

    from minimal_engine import read_checkpoint

    a, b = torch.tensor([1.5, -2.0]), torch.tensor([[3.0]], dtype=torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text('{"hidden_size": 7}')
        save_file({"a": a}, f"{folder}/model-1.safetensors")
        save_file({"b": b}, f"{folder}/model-2.safetensors")
        config, weights = read_checkpoint(folder)
        return {
            "config": config,
            "values": {name: w.tolist() for name, w in weights.items()},
            "dtypes": sorted({str(w.dtype) for w in weights.values()}),
        }


def judge_weights_of_all_shards_are_read_as_float32(seed, got):
    equal(got["config"], {"hidden_size": 7}, "the config")
    equal(got["values"], {"a": [1.5, -2.0], "b": [[3.0]]}, "weights by name")
    equal(got["dtypes"], ["torch.float32"], "dtypes")


@public_bug("B06")
def probe_rms_norm_follows_its_formula_and_leaves_its_input_alone(seed):
    from minimal_engine import rms_norm

    x, weight = torch.tensor(draw(seed, 3, 8)), torch.tensor(draw(seed + 1, 8))
    result = rms_norm(x, weight, 1e-2)
    return {"result": result.tolist(), "x": x.tolist()}


def judge_rms_norm_follows_its_formula_and_leaves_its_input_alone(seed, got):
    x, weight = draw(seed, 3, 8), draw(seed + 1, 8)
    close(got["result"], norm(x.astype(np.float64), weight, 1e-2), 1e-6, "normalized")
    equal(got["x"], x, "the input afterwards")


@public_bug("B03")
def probe_rope_base_is_found_in_either_style_of_config(seed):
    from minimal_engine import rope_frequencies

    styles = [
        {"rope_theta": 1e6, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    ]
    return {
        "tables": [rope_frequencies(config, 16).tolist() for config in styles],
        "neither": error_of(lambda: rope_frequencies({}, 16)),
    }


def judge_rope_base_is_found_in_either_style_of_config(seed, got):
    for table in got["tables"]:
        close(table, frequencies(1e6, 16), 0.0, "frequencies", rtol=1e-6)
    refused(got["neither"], "a config without a base", "rope_theta")


@public_bug("B05")
def probe_llama3_scaling_slows_down_long_waves_only(seed):
    from minimal_engine import rope_frequencies

    top = {key: value for key, value in LLAMA3.items() if key != "rope_theta"}
    old = {"rope_theta": LLAMA3["rope_theta"], "rope_scaling": top}
    return [
        rope_frequencies({"rope_parameters": LLAMA3}, 64).tolist(),
        rope_frequencies(old, 64).tolist(),
    ]


def judge_llama3_scaling_slows_down_long_waves_only(seed, got):
    plain = frequencies(5e5, 64)
    for table in got:
        close(table, llama3_frequencies(LLAMA3, 64), 0.0, "frequencies", rtol=2e-6)
        slowed = plain / np.array(table)
        close(slowed[:15], [1.0] * 15, 1e-5, "divisor of short waves")
        close(slowed[15:18], [1.651, 3.292, 9.667], 5e-3, "divisor of waves between")
        close(slowed[18:], [32.0] * 14, 1e-3, "divisor of long waves")


def probe_rotation_turns_each_pair_by_its_tokens_angle(seed):
    from minimal_engine import rotate

    x, angles = torch.tensor(draw(seed, 3, 2, 8)), torch.tensor(draw(seed + 1, 3, 4))
    return {"turned": rotate(x, angles).tolist(), "x": x.tolist()}


def judge_rotation_turns_each_pair_by_its_tokens_angle(seed, got):
    x, angles = draw(seed, 3, 2, 8), draw(seed + 1, 3, 4)
    close(got["turned"], rotated(x.astype(np.float64), angles), 1e-6, "rotated heads")
    equal(got["x"], x, "the input afterwards")


def probe_new_tokens_attend_to_all_earlier_ones_and_to_none_later(seed):
    from minimal_engine import attend

    q, k, v = (torch.tensor(draw(seed + i, n, h, 4)) for i, (n, h) in enumerate(SIZES))
    return attend(q, k, v).tolist()


SIZES = ((3, 6), (5, 2), (5, 2))  # (tokens, heads) of q, k and v


def judge_new_tokens_attend_to_all_earlier_ones_and_to_none_later(seed, got):
    q, k, v = (draw(seed + i, n, h, 4).astype(np.float64) for i, (n, h) in enumerate(SIZES))
    close(got, attention(q, k, v), 1e-5, "mixed values")


def probe_a_qwen3_like_model_gives_the_formulas_logits(seed):
    return logits_of(SMALL, make_weights(seed, SMALL, qk_norm=True))


def judge_a_qwen3_like_model_gives_the_formulas_logits(seed, got):
    want = reference(SMALL, make_weights(seed, SMALL, qk_norm=True), PROMPT)
    close(got, want, 1e-4, "logits")


def probe_a_qwen2_like_model_adds_its_biases(seed):
    return logits_of(SMALL, make_weights(seed, SMALL, bias=True))


def judge_a_qwen2_like_model_adds_its_biases(seed, got):
    want = reference(SMALL, make_weights(seed, SMALL, bias=True), PROMPT)
    close(got, want, 1e-4, "logits")


@public_bug("B01")
def probe_head_dim_is_the_quotient_unless_the_config_gives_one(seed):
    from minimal_engine import MinimalEngine

    sizes = []
    for given in ({}, {"head_dim": None}, {"head_dim": 32}):
        config = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4, **given}
        with written(config, {"model.embed_tokens.weight": draw(seed, 5, 64)}) as folder:
            engine = MinimalEngine(folder)
            sizes.append([engine.head_dim, len(engine.freqs)])
    return sizes


def judge_head_dim_is_the_quotient_unless_the_config_gives_one(seed, got):
    equal(got, [[16, 8], [16, 8], [32, 16]], "head_dim and frequencies: absent, null, 32")


@public_bug("B14")
def probe_a_tied_head_is_the_embedding_whatever_the_file_holds(seed):
    weights = make_weights(seed, SMALL)
    shared = dict(weights)
    del shared["lm_head.weight"]
    tied = {**SMALL, "tie_word_embeddings": True}
    cases = {
        "tied, no lm_head": (tied, shared),
        "tied, lm_head in the file": (tied, weights),
        "untied, no lm_head": (SMALL, shared),
        "untied": (SMALL, weights),
    }
    return {name: logits_of(*case) for name, case in cases.items()}


def judge_a_tied_head_is_the_embedding_whatever_the_file_holds(seed, got):
    weights = make_weights(seed, SMALL)
    tied = {**weights, "lm_head.weight": weights["model.embed_tokens.weight"]}
    for name, logits in got.items():
        own = name == "untied"
        want = reference(SMALL, weights if own else tied, PROMPT)
        close(logits, want, 1e-4, f"logits, {name}")


@public_bug("B12")
def probe_cached_and_recomputed_steps_give_the_same_logits(seed):
    from minimal_engine import MinimalEngine

    with written(SMALL, make_weights(seed, SMALL, qk_norm=True)) as folder:
        engine, ids = MinimalEngine(folder), list(PROMPT)
        runs = [list(engine.generate(ids, 5, cache)) for cache in (True, False)]
    logits = [[row.tolist() for row in run] for run in runs]
    return {"cached": logits[0], "recomputed": logits[1], "prompt": ids}


def judge_cached_and_recomputed_steps_give_the_same_logits(seed, got):
    weights, ids = make_weights(seed, SMALL, qk_norm=True), list(PROMPT)
    for step in range(5):
        want = reference(SMALL, weights, ids)
        for mode in ("cached", "recomputed"):
            close(got[mode][step], want, 2e-4, f"logits of step {step}, {mode}")
        ids.append(int(want.argmax()))
    equal([len(got["cached"]), len(got["recomputed"])], [5, 5], "tokens")
    equal(got["prompt"], PROMPT, "the caller's prompt afterwards")


def probe_the_cache_keeps_k_and_v_of_each_layer_and_token(seed):
    from minimal_engine import MinimalEngine

    with written(SMALL, make_weights(seed, SMALL)) as folder:
        engine, cache = MinimalEngine(folder), {}
        shapes = []
        for new in ([3, 1, 4], [1]):
            engine.forward(new, cache)
            shapes.append({str(i): [list(t.shape) for t in pair] for i, pair in cache.items()})
    return shapes


def judge_the_cache_keeps_k_and_v_of_each_layer_and_token(seed, got):
    for tokens, shapes in zip((3, 4), got, strict=True):
        want = [[tokens, 2, 8], [tokens, 2, 8]]
        equal(shapes, {"0": want, "1": want}, f"K and V by layer after {tokens} tokens")


def probe_new_k_and_v_follow_the_earlier_ones(seed):
    from minimal_engine import MinimalEngine

    with written(SMALL, make_weights(seed, SMALL)) as folder:
        engine, cache = MinimalEngine(folder), {}
        engine.forward([3, 1, 4], cache)
        first = [t.tolist() for t in cache[0]]
        engine.forward([1, 5], cache)
        return {"first": first, "then": [t.tolist() for t in cache[0]]}


def judge_new_k_and_v_follow_the_earlier_ones(seed, got):
    for name, first, then in zip("KV", got["first"], got["then"], strict=True):
        equal([len(first), len(then)], [3, 5], f"tokens in {name}")
        equal(then[:3], first, f"{name} of the first three tokens, after two more")


def probe_generate_computes_each_token_once_unless_the_cache_is_off(seed):
    from minimal_engine import MinimalEngine

    found = {}
    with written(SMALL, make_weights(seed, SMALL)) as folder:
        engine = MinimalEngine(folder)
        for name, choice in (("default", {}), ("off", {"use_cache": False})):
            lengths = found[name] = []

            def forward(ids, cache, lengths=lengths):
                lengths.append(len(ids))
                return MinimalEngine.forward(engine, ids, cache)

            with patch.object(engine, "forward", forward):
                list(engine.generate([3, 1, 4], 3, **choice))
    return found


def judge_generate_computes_each_token_once_unless_the_cache_is_off(seed, got):
    equal(got["default"], [3, 1, 1], "tokens of each step, by default")
    equal(got["off"], [3, 4, 5], "tokens of each step, without the cache")


def probe_the_answer_is_checked_against_another_process(seed):
    import minimal_engine

    commands = []

    def start(command, **kwargs):
        commands.append([command[0] == minimal_engine.sys.executable, *command[1:]])
        return SimpleNamespace(stdout="[7, 8]\n")

    with patch.object(minimal_engine.subprocess, "run", start):
        answers = [minimal_engine.check("folder", [1, 2, 3], made) for made in ([7, 8], [7, 9])]
    return {"answers": answers, "commands": commands, "script": minimal_engine.REFERENCE}


def judge_the_answer_is_checked_against_another_process(seed, got):
    equal(got["answers"], [True, False], "same tokens, another token")
    equal(got["commands"][0], [True, "-c", got["script"], "folder", "[1, 2, 3]", "2"], "command")
    truth("transformers" in got["script"], "the other process asks transformers", got["script"])
    truth("minimal_engine" not in got["script"], "it doesn't ask this engine", got["script"])


def probe_seconds_times_the_generation_of_n_tokens(seed):
    import minimal_engine

    seen = []
    clock = iter((10.0, 12.5))

    def generate(ids, n, use_cache):
        seen.append([ids, n, use_cache])
        return iter([None] * n)

    with patch.object(minimal_engine.time, "perf_counter", lambda: next(clock)):
        spent = minimal_engine.seconds(SimpleNamespace(generate=generate), [1, 2], 3, False)
    return {"spent": spent, "seen": seen}


def judge_seconds_times_the_generation_of_n_tokens(seed, got):
    equal(got, {"spent": 2.5, "seen": [[[1, 2], 3, False]]}, "seconds, and what was generated")
