"""Counts what minimal_engine.py computes, and compares the reader's predictions with it."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random

import torch
from torch.overrides import TorchFunctionMode

from pairs import draw, equal

CASES = 3


def drawn(seed):
    """Three times a config, a prompt's length, how many new tokens, and whether K and V are kept.

    Queries have several times as many heads as keys, and heads are not hidden / heads wide.
    """
    random, cases = Random(seed), []
    for i in range(CASES):
        kv = random.choice((1, 2))
        config = {
            "hidden_size": random.choice((20, 28, 36)),
            "intermediate_size": random.choice((22, 26, 34)),
            "num_hidden_layers": random.choice((1, 2, 3)),
            "num_attention_heads": kv * random.choice((2, 3)),
            "num_key_value_heads": kv,
            "head_dim": random.choice((8, 16)),
            "vocab_size": random.randrange(101, 140),  # unlike any other size
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e4,
            "tie_word_embeddings": True,
        }
        cases.append((config, random.randrange(4, 12), random.randrange(3, 8), i != 1))
    return cases


def shapes(config):
    """Name and shape of each weight of a small decoder."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = (config[f"num_{name}_heads"] * head for name in ("attention", "key_value"))
    found = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    found["model.norm.weight"] = (hidden,)
    for layer in range(config["num_hidden_layers"]):
        rows = {"self_attn.q_proj": q, "self_attn.k_proj": kv, "self_attn.v_proj": kv}
        rows |= {"mlp.gate_proj": inner, "mlp.up_proj": inner}
        sizes = {name: (size, hidden) for name, size in rows.items()}
        sizes |= {"self_attn.o_proj": (hidden, q), "mlp.down_proj": (hidden, inner)}
        sizes |= {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}
        found |= {f"model.layers.{layer}.{name}.weight": size for name, size in sizes.items()}
    return found


@contextmanager
def written(config, seed):
    """A model folder with this config and drawn weights."""
    from safetensors.numpy import save_file

    weights = {name: draw(seed, *shape) * 0.1 for name, shape in shapes(config).items()}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        save_file(weights, str(Path(folder, "model.safetensors")))
        yield folder


class Products(TorchFunctionMode):
    """Counts multiply-adds of matrix products: those of two computed tensors are attention's."""

    def __init__(self, vocab):
        super().__init__()
        self.vocab, self.work = vocab, Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in ("linear", "matmul", "__matmul__", "mm", "mv", "bmm"):
            rest = "head" if self.vocab in result.shape else "projections"
            part = rest if name == "linear" else "attention"
            self.work[part] += result.numel() * args[0].shape[-1]
        return result


def measured(config, prompt, new, use_cache, seed):
    """Tokens and multiply-adds of one real run, before the reader's code is there at all."""
    from minimal_engine import MinimalEngine

    tokens, vocab = 0, config["vocab_size"]
    with written(config, seed) as folder, torch.no_grad(), Products(vocab) as products:
        engine = MinimalEngine(folder)
        forward = engine.forward

        def counted(ids, cache):
            nonlocal tokens
            tokens += len(ids)
            return forward(ids, cache)

        engine.forward = counted
        list(engine.generate(list(range(1, prompt + 1)), new, use_cache))
    return {"tokens": tokens, **products.work}


def tokens_of(seed, wanted):
    runs = [(*case[1:], measured(*case, seed)) for case in drawn(seed) if case[3] is wanted]

    from answer import tokens_computed

    return [
        {"measured": run["tokens"], "predicted": tokens_computed(prompt, new, use_cache)}
        for prompt, new, use_cache, run in runs
    ]


def part_of(seed, part):
    runs = [(case, measured(*case, seed)) for case in drawn(seed)]

    from answer import multiply_adds

    return [{"measured": run[part], "predicted": multiply_adds(*case)[part]} for case, run in runs]


def judged(got, why):
    for case in got:
        equal(case["predicted"], case["measured"], why)


def probe_tokens_with_the_cache(seed):
    return tokens_of(seed, True)


def judge_tokens_with_the_cache(seed, got):
    judged(got, "tokens computed with the cache (the last new token never goes through the model)")


def probe_tokens_without_the_cache(seed):
    return tokens_of(seed, False)


def judge_tokens_without_the_cache(seed, got):
    judged(got, "tokens computed without the cache (what was generated is computed again too)")


def probe_multiply_adds_of_the_projections(seed):
    return part_of(seed, "projections")


def judge_multiply_adds_of_the_projections(seed, got):
    judged(got, "multiply-adds of the projections (k and v have fewer heads than q)")


def probe_multiply_adds_of_attention(seed):
    return part_of(seed, "attention")


def judge_multiply_adds_of_attention(seed, got):
    judged(got, "multiply-adds of attention (the mask hides scores, and saves none)")


def probe_multiply_adds_of_the_head(seed):
    return part_of(seed, "head")


def judge_multiply_adds_of_the_head(seed, got):
    judged(got, "multiply-adds of the head (the head sees the last row of a step alone)")
