"""Chapter 03: the decoder against float64 formulas, for each family and each switch."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from pairs import checkpoint, close, draw, equal, error_of, public_bug, refused

SIZES = {
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "hidden_size": 36,
    "vocab_size": 31,
    "intermediate_size": 20,
    "rms_norm_eps": 1e-3,
    "max_position_embeddings": 64,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
BASE = {"rope_theta": 555.0}
DEFAULT = {"rope_type": "default", "rope_theta": 99.0}
CASES = {
    "llama": BASE,
    "llama, llama3 scaling": {**BASE, "rope_scaling": LLAMA3},
    "llama, attention_bias": {**BASE, "attention_bias": True},
    "llama, mlp_bias": {**BASE, "mlp_bias": True},
    "llama, gelu": {**BASE, "hidden_act": "gelu"},
    "llama, half the channels turn": {**BASE, "partial_rotary_factor": 0.5, "head_dim": 8},
    "llama, as many kv heads": {**BASE, "num_key_value_heads": 6},
    "mistral": {"rope_parameters": DEFAULT, "sliding_window": 4, "head_dim": None},
    "mistral, no window": {**BASE, "sliding_window": None, "head_dim": 10},
    "qwen2": {**BASE, "sliding_window": 3, "use_sliding_window": False},
    "qwen2, window from layer 1": {
        **BASE,
        "sliding_window": 3,
        "use_sliding_window": True,
        "max_window_layers": 1,
    },
    "qwen3": {**BASE, "head_dim": 8},
}
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 30]
AT_ONCE = ((0, 10),)
STEPS = ((0, 4), (4, 9), (9, 10))


def config_of(case, **changes):
    """The config.json of a case."""
    kind = case.partition(",")[0]
    names = {"model_type": kind, "architectures": [f"{FAMILIES[kind]}ForCausalLM"]}
    return {**SIZES, **CASES[case], **names, **changes}


def head_dim_of(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def make_weights(seed, c):
    """Drawn weights under their names in a checkpoint, with the biases and norms that c has."""
    hidden, inner, d = c["hidden_size"], c["intermediate_size"], head_dim_of(c)
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    shapes = {"model.embed_tokens": (c["vocab_size"], hidden), "model.norm": (hidden,)}
    shapes["lm_head"] = shapes["model.embed_tokens"]
    biased = ["q_proj", "k_proj", "v_proj"] if c["model_type"] == "qwen2" else []
    biased += ["q_proj", "k_proj", "v_proj", "o_proj"] if c.get("attention_bias") else []
    biased += ["gate_proj", "up_proj", "down_proj"] if c.get("mlp_bias") else []
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {at + "self_attn.q_proj": (q, hidden), at + "self_attn.k_proj": (kv, hidden)}
        shapes |= {at + "self_attn.v_proj": (kv, hidden), at + "self_attn.o_proj": (hidden, q)}
        shapes |= {at + "mlp.gate_proj": (inner, hidden), at + "mlp.up_proj": (inner, hidden)}
        shapes |= {at + "mlp.down_proj": (hidden, inner), at + "input_layernorm": (hidden,)}
        shapes |= {at + "post_attention_layernorm": (hidden,)}
        if c["model_type"] == "qwen3":
            shapes |= {at + "self_attn.q_norm": (d,), at + "self_attn.k_norm": (d,)}
    weights = {}
    for i, (name, shape) in enumerate(shapes.items()):
        scale = shape[-1] ** -0.5 if len(shape) == 2 else 1.0
        weights[f"{name}.weight"] = (draw(seed + i, *shape) * scale).astype(np.float32)
        if name.rpartition(".")[2] in biased:
            weights[f"{name}.bias"] = draw(seed + 1000 + i, shape[0])
    return weights


class Attention:
    """Probe side: stands where a backend will; keeps K and V, masks by age, one head at a time."""

    def __init__(self, windows):
        self.windows, self.kept = windows, {}

    def forward(self, q, k, v, layer_id, batch):
        past = self.kept.setdefault(layer_id, [])
        past.append((k, v))
        k, v = (torch.cat(parts) for parts in zip(*past, strict=True))
        out, group, window = torch.empty_like(q), q.shape[1] // k.shape[1], self.windows[layer_id]
        for i in range(len(q)):
            end = len(k) - len(q) + i + 1
            seen = slice(max(0, end - window) if window else 0, end)
            for h in range(q.shape[1]):
                scores = k[seen, h // group] @ q[i, h] / math.sqrt(q.shape[-1])
                out[i, h] = scores.softmax(0) @ v[seen, h // group]
        return out


def forward_all(config, weights, steps=AT_ONCE, packed=False, shards=2):
    """Probe side: write a checkpoint, load it, run PROMPT in steps; each step's last logits."""
    from safetensors.numpy import save_file

    from minisgl.core import Batch, Context, get_global_ctx, set_global_ctx
    from minisgl.models import ModelConfig, create_model, load_weight
    from minisgl.utils import cached_load_hf_config

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        for i in range(shards):
            part = dict(list(weights.items())[i::shards])
            save_file(part, f"{folder}/model-{i}.safetensors")
        read = ModelConfig.from_hf(cached_load_hf_config(folder))
        with torch.device("meta"):
            model = create_model(read)
        loaded = dict(load_weight(folder, torch.device("cpu")))
        model.load_state_dict(loaded)
        if packed:
            model.process_weights_after_loading()
        ctx, logits = Context(page_size=1), []
        ctx.attn_backend = Attention(read.layer_windows)
        set_global_ctx(ctx)
        for start, end in steps:
            batch = Batch(reqs=[None], phase="prefill" if end - start > 1 else "decode")
            batch.input_ids = torch.tensor(PROMPT[start:end])
            batch.positions = torch.arange(start, end)
            last = torch.tensor([end - start - 1])
            batch.attn_metadata = SimpleNamespace(get_last_indices=lambda bs, last=last: last)
            with get_global_ctx().forward_batch(batch):
                logits.append(model.forward()[0].tolist())
        return logits


def frequencies(c, size):
    rope = {**(c.get("rope_scaling") or {}), **(c.get("rope_parameters") or {})}
    base = rope.get("rope_theta") or c["rope_theta"]
    freqs = base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    if rope.get("rope_type") != "llama3":
        return freqs
    turns = rope["original_max_position_embeddings"] * freqs / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    blend = np.clip((turns - low) / (high - low), 0, 1)
    return freqs * (blend + (1 - blend) / rope["factor"])


def rotated(x, freqs):
    half = len(freqs)
    turned = (x[..., :half] + 1j * x[..., half : 2 * half]) * np.exp(
        1j * np.outer(np.arange(len(x)), freqs)
    )[:, None]
    return np.concatenate([turned.real, turned.imag, x[..., 2 * half :]], axis=-1)


def norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def window_of(c, layer):
    if not c.get("sliding_window") or not c.get("use_sliding_window", True):
        return None
    return c["sliding_window"] if layer >= c.get("max_window_layers", 0) else None


def attention(q, k, v, window):
    out, group = np.empty(q.shape), q.shape[1] // k.shape[1]
    for i in range(len(q)):
        seen = slice(max(0, i + 1 - window) if window else 0, i + 1)
        for h in range(q.shape[1]):
            scores = np.exp(k[seen, h // group] @ q[i, h] / math.sqrt(q.shape[-1]))
            out[i, h] = scores / scores.sum() @ v[seen, h // group]
    return out.reshape(len(q), -1)


def act(name, x):
    if name == "silu":
        return x / (1 + np.exp(-x))
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def reference(c, weights, ids):
    """The logits after ids, in float64, straight from the unmerged weights."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    d, eps = head_dim_of(c), c["rms_norm_eps"]
    freqs = frequencies(c, int(d * c.get("partial_rotary_factor", 1.0)))

    def linear(x, name):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        normed = norm(x, w[at + "input_layernorm.weight"], eps)
        q, k, v = (
            linear(normed, f"{at}self_attn.{p}_proj").reshape(len(ids), -1, d) for p in "qkv"
        )
        if at + "self_attn.q_norm.weight" in w:
            q = norm(q, w[at + "self_attn.q_norm.weight"], eps)
            k = norm(k, w[at + "self_attn.k_norm.weight"], eps)
        mixed = attention(rotated(q, freqs), rotated(k, freqs), v, window_of(c, layer))
        x = x + linear(mixed, at + "self_attn.o_proj")
        normed = norm(x, w[at + "post_attention_layernorm.weight"], eps)
        gate, up = (linear(normed, f"{at}mlp.{p}_proj") for p in ("gate", "up"))
        x = x + linear(act(c["hidden_act"], gate) * up, at + "mlp.down_proj")
    return norm(x[-1], w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def probe_every_family_and_switch_gives_the_formulas_logits(seed):
    found = {}
    for case in CASES:
        config = config_of(case)
        found[case] = forward_all(config, make_weights(seed, config))[0]
    return found


def judge_every_family_and_switch_gives_the_formulas_logits(seed, got):
    equal(sorted(got), sorted(CASES), "cases")
    for case, logits in got.items():
        config = config_of(case)
        close(
            logits, reference(config, make_weights(seed, config), PROMPT), 1e-4, f"logits, {case}"
        )


def probe_packed_weights_and_steps_give_the_same_logits(seed):
    found = {}
    for case in ("qwen3", "mistral", "llama, attention_bias"):
        config = config_of(case)
        weights = make_weights(seed, config)
        found[case] = forward_all(config, weights, STEPS, packed=True, shards=3)
    return found


def judge_packed_weights_and_steps_give_the_same_logits(seed, got):
    equal(len(got), 3, "cases")
    for case, steps in got.items():
        config = config_of(case)
        for (_, end), logits in zip(STEPS, steps, strict=True):
            want = reference(config, make_weights(seed, config), PROMPT[:end])
            close(logits, want, 1e-4, f"logits after {end} tokens, {case}")


@public_bug("B14")
def probe_every_family_can_tie_its_head(seed):
    found = {}
    for kind in FAMILIES:
        config = config_of(kind, tie_word_embeddings=True)
        weights = make_weights(seed, config)
        without = {name: w for name, w in weights.items() if name != "lm_head.weight"}
        for packed in (False, True):
            found[f"{kind}, no lm_head, {packed}"] = forward_all(config, without, packed=packed)[0]
            found[f"{kind}, lm_head, {packed}"] = forward_all(config, weights, packed=packed)[0]
    return found


def judge_every_family_can_tie_its_head(seed, got):
    equal(len(got), 16, "cases")
    for case, logits in got.items():
        config = config_of(case.partition(",")[0])
        weights = make_weights(seed, config)
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        close(logits, reference(config, weights, PROMPT), 1e-4, f"logits, {case}")


def probe_weights_that_do_not_belong_to_the_model_are_named(seed):
    untied, bias = config_of("llama"), config_of("llama, attention_bias")
    right = make_weights(seed, untied)
    few = {name: w for name, w in right.items() if name != "lm_head.weight"}
    name = "model.layers.1.mlp.down_proj.weight"
    return {
        "no head": error_of(lambda: forward_all(untied, few)),
        "biases": error_of(lambda: forward_all(untied, make_weights(seed, bias))),
        "no biases": error_of(lambda: forward_all(bias, right)),
        "a layer more": error_of(lambda: forward_all({**untied, "num_hidden_layers": 1}, right)),
        "shape": error_of(lambda: forward_all(untied, {**right, name: right[name][:, 1:].copy()})),
        "dtype": error_of(lambda: forward_all(untied, {**right, name: right[name].astype("f2")})),
    }


def judge_weights_that_do_not_belong_to_the_model_are_named(seed, got):
    refused(got["no head"], "an untied model without a head", "lm_head.weight", "missing")
    refused(got["biases"], "biases that the config lacks", "self_attn.o_proj.bias", "no op")
    refused(got["no biases"], "biases that the file lacks", "qkv_proj.bias", "missing")
    refused(got["a layer more"], "a layer that the config lacks", "model.layers.1.", "no op takes")
    name = "model.layers.1.mlp.down_proj.weight"
    refused(got["shape"], "a weight of another shape", name, "(36, 19)", "(36, 20)")
    refused(got["dtype"], "a weight of another dtype", name, "float16", "float32")


def probe_weights_have_the_names_of_the_checkpoint_but_for_merged_ones(seed):
    from transformers import AutoConfig

    from minisgl.models import ModelConfig, create_model

    config = config_of("qwen3", num_hidden_layers=1)
    model = create_model(ModelConfig.from_hf(AutoConfig.for_model(**config)))
    return {name: list(w.shape) for name, w in model.state_dict().items()}


def judge_weights_have_the_names_of_the_checkpoint_but_for_merged_ones(seed, got):
    at = "model.layers.0."
    want = {
        "model.embed_tokens.weight": [31, 36],
        at + "self_attn.qkv_proj.weight": [80, 36],
        at + "self_attn.o_proj.weight": [36, 48],
        at + "self_attn.q_norm.weight": [8],
        at + "self_attn.k_norm.weight": [8],
        at + "mlp.gate_up_proj.weight": [40, 36],
        at + "mlp.down_proj.weight": [36, 20],
        at + "input_layernorm.weight": [36],
        at + "post_attention_layernorm.weight": [36],
        "model.norm.weight": [36],
        "lm_head.weight": [31, 36],
    }
    equal(got, want, "names and shapes")


def model_named(*architectures, **changes):
    """Probe side: a model of the architectures."""
    from transformers import AutoConfig

    from minisgl.models import ModelConfig, create_model

    config = {**config_of("llama"), "architectures": list(architectures), **changes}
    with torch.device("meta"):
        return create_model(ModelConfig.from_hf(AutoConfig.for_model(**config)))


def probe_the_architecture_decides_the_model_and_unknown_ones_are_refused(seed):
    from minisgl.models import BaseLLMModel

    known = [model_named(f"{name}ForCausalLM") for name in FAMILIES.values()]
    return {
        "known": [isinstance(model, BaseLLMModel) for model in known],
        "unknown": error_of(lambda: model_named("GPT2LMHeadModel")),
        "none": error_of(lambda: model_named()),
        "activation": error_of(lambda: model_named("LlamaForCausalLM", hidden_act="relu")),
    }


def judge_the_architecture_decides_the_model_and_unknown_ones_are_refused(seed, got):
    equal(got["known"], [True] * 4, "whether each family has a model")
    words = ("GPT2LMHeadModel", *(f"{name}ForCausalLM" for name in FAMILIES.values()))
    refused(got["unknown"], "an unknown architecture", *words, kind="ValueError")
    refused(got["none"], "a config without one", "no architecture", kind="ValueError")
    refused(got["activation"], "an unknown activation", "'relu'", kind="ValueError")


def probe_a_model_must_say_how_it_runs(seed):
    from minisgl.models import BaseLLMModel

    class Silent(BaseLLMModel):
        pass

    class Loud(BaseLLMModel):
        def forward(self):
            return 5

    return {"silent": error_of(Silent), "loud": Loud().forward(), "weights": Loud().state_dict()}


def judge_a_model_must_say_how_it_runs(seed, got):
    refused(got["silent"], "a model without forward", "forward", kind="TypeError")
    equal([got["loud"], got["weights"]], [5, {}], "a model with it, which is also an op")


@public_bug("B06")
def probe_the_blocks_leave_their_inputs_alone(seed):
    from transformers import AutoConfig

    from minisgl.core import Batch, Context, get_global_ctx, set_global_ctx
    from minisgl.models import ModelConfig
    from minisgl.models.decoder import DecoderLayer
    from minisgl.models.utils import GatedMLP, RopeAttn
    from minisgl.utils import torch_dtype

    config = ModelConfig.from_hf(AutoConfig.for_model(**config_of("qwen3")))
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        with torch_dtype(dtype):
            blocks = [GatedMLP(config), RopeAttn(config, 0, has_qk_norm=True)]
            blocks.append(DecoderLayer(config, 0))
        ctx, batch = Context(page_size=1), Batch(reqs=[None], phase="prefill")
        batch.positions = torch.arange(3)
        set_global_ctx(ctx)
        for block in blocks:
            for weight in block.state_dict().values():
                weight.copy_(torch.tensor(draw(seed, *weight.shape)))
            ctx.attn_backend = Attention([None, None])
            given = [torch.tensor(draw(seed + i, 3, 36)).to(dtype) for i in range(2)]
            kept = [t.clone() for t in given]
            args = given if isinstance(block, DecoderLayer) else given[:1]
            with get_global_ctx().forward_batch(batch):
                results = block.forward(*args)
            for result in results if isinstance(results, tuple) else (results,):
                found.append([result.dtype == dtype, list(result.shape) == [3, 36]])
                result.fill_(9.0)
            found[-1] += [torch.equal(a, b) for a, b in zip(given, kept, strict=True)]
    return found


def judge_the_blocks_leave_their_inputs_alone(seed, got):
    layer = [[True] * 2, [True] * 4]  # a layer has two results
    equal(got, [[True] * 4, [True] * 4, *layer] * 2, "dtype, shape, inputs unchanged, by block")


def probe_a_config_is_read_once_and_copied_for_each_caller(seed):
    from minisgl.utils import cached_load_hf_config

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(json.dumps(config_of("qwen2")))
        first = cached_load_hf_config(folder)
        path.unlink()
        first.num_hidden_layers = 99
        second = cached_load_hf_config(folder)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text('{"model_type": "ll')
        damaged = error_of(lambda: cached_load_hf_config(folder))
        named = folder in damaged["message"] if damaged else False
    return {
        "second": [type(second).__name__, second.num_hidden_layers],
        "damaged": damaged,
        "named": named,
    }


def judge_a_config_is_read_once_and_copied_for_each_caller(seed, got):
    want = ["Qwen2Config", 2]
    equal(got["second"], want, "the config after the first copy was changed and the file removed")
    refused(got["damaged"], "half a config", "config.json", "JSON")
    equal(got["named"], True, "whether the message names the folder")


def probe_a_folder_has_its_tokenizer(seed):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    from minisgl.utils import load_tokenizer

    words = Tokenizer(models.WordLevel({"<unk>": 0, "water": 1}, unk_token="<unk>"))
    with tempfile.TemporaryDirectory() as folder:
        PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)
        tokenizer = load_tokenizer(folder)
        return [tokenizer("water").input_ids, tokenizer.decode([1])]


def judge_a_folder_has_its_tokenizer(seed, got):
    equal(got, [[1], "water"], "ids of a word, and back")


def probe_a_real_tokenizer_knows_its_chat_template(seed):
    from minisgl.utils import load_tokenizer

    tokenizer = load_tokenizer(checkpoint("tiny-qwen3"))
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )


def judge_a_real_tokenizer_knows_its_chat_template(seed, got):
    equal([got.count("user"), got.count("hi"), got.count("assistant")], [1, 1, 1], "the prompt")


def probe_a_block_has_no_biases_and_head_norms_unless_told(seed):
    from minisgl.models import ModelConfig
    from minisgl.models.decoder import DecoderLayer
    from minisgl.models.utils import RopeAttn

    config = ModelConfig.from_hf(SimpleNamespace(**config_of("llama")))
    blocks = [RopeAttn(config, 0), RopeAttn(config, 0, has_attn_bias=True, has_qk_norm=True)]
    names = [sorted(block.state_dict()) for block in blocks]
    return [names, vars(DecoderLayer(config, 5))["_layer_id"]]


def judge_a_block_has_no_biases_and_head_norms_unless_told(seed, got):
    plain = ["o_proj.weight", "qkv_proj.weight"]
    told = ["k_norm.weight", *plain[:1], "q_norm.weight", "qkv_proj.bias", *plain[1:]]
    equal(got[0], [plain, told], "weights of a block by default, and with both switches on")
    equal(got[1], 5, "the layer's number, which names its range in a profile")
