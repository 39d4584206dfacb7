"""A whole LLM inference engine in one file: read weights, run the forward pass, cache K and V."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor


def read_checkpoint(folder: str) -> tuple[dict, dict[str, Tensor]]:
    """Return config.json and the weights by name, as float32, of all *.safetensors in folder."""
    config, weights = json.loads((Path(folder) / "config.json").read_text()), {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, framework="pt") as shard:
            weights |= {name: shard.get_tensor(name).float() for name in shard.offset_keys()}
    return config, weights


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Scale each row of x: (tokens, size) to a root mean square of one, then by weight: (size,)."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rope_frequencies(config: dict, head_dim: int) -> Tensor:
    """Return the (head_dim / 2,) angles per position; llama3 scaling slows down the long waves."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    base = rope.get("rope_theta") or config["rope_theta"]
    freqs = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    if rope.get("rope_type", "default") != "llama3":
        return freqs
    turns = rope["original_max_position_embeddings"] * freqs / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return keep * freqs + (1 - keep) * freqs / rope["factor"]


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn each pair (i, i + d/2) of x: (tokens, heads, d) by its token's angles: (tokens, d/2)."""
    (a, b), cos, sin = x.chunk(2, dim=-1), angles.cos()[:, None], angles.sin()[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of q: (new, heads, d) to k, v: (total, kv_heads, d) -> (new, heads * d)."""
    new, total, group = len(q), len(k), q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, dim=1).transpose(0, 1) for t in (k, v))
    future = torch.ones(new, total, dtype=torch.bool).triu(total - new + 1)
    scores = (q.transpose(0, 1) @ k.transpose(1, 2)).masked_fill(future, -torch.inf)
    return ((scores / q.shape[-1] ** 0.5).softmax(dim=-1) @ v).transpose(0, 1).flatten(1)


class MinimalEngine:
    """A decoder of the Llama kind (Llama, Qwen2.5, Qwen3), one request at a time, float32."""

    def __init__(self, folder: str) -> None:
        self.config, self.w = read_checkpoint(folder)
        heads, hidden = self.config["num_attention_heads"], self.config["hidden_size"]
        self.head_dim = self.config.get("head_dim") or hidden // heads
        self.freqs = rope_frequencies(self.config, self.head_dim)
        tied = self.config.get("tie_word_embeddings") or "lm_head.weight" not in self.w
        self.head = self.w["model.embed_tokens.weight" if tied else "lm_head.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.w[name + ".weight"], self.w.get(name + ".bias"))

    def norm(self, x: Tensor, name: str) -> Tensor:
        weight = self.w.get(name + ".weight")  # only Qwen3 has q_norm and k_norm
        return x if weight is None else rms_norm(x, weight, self.config["rms_norm_eps"])

    def attention(self, x: Tensor, name: str, layer: int, cache: dict, angles: Tensor) -> Tensor:
        """x: (new, hidden) -> the same shape; its K and V join the cache. name: to self_attn."""
        q, k, v = (self.linear(x, f"{name}.{p}_proj") for p in "qkv")
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)) for t in (q, k, v))
        q = rotate(self.norm(q, name + ".q_norm"), angles)
        k = rotate(self.norm(k, name + ".k_norm"), angles)
        if layer in cache:
            k, v = (torch.cat(pair) for pair in zip(cache[layer], (k, v), strict=True))
        cache[layer] = k, v
        return self.linear(attend(q, k, v), name + ".o_proj")

    def forward(self, ids: list[int], cache: dict) -> Tensor:
        """Return the logits (vocab,) after ids; cache: layer -> K and V of the earlier tokens."""
        past = len(cache[0][0]) if cache else 0
        angles = torch.arange(past, past + len(ids))[:, None] * self.freqs
        x = self.w["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            normed = self.norm(x, name + ".input_layernorm")
            x = x + self.attention(normed, name + ".self_attn", layer, cache, angles)
            normed = self.norm(x, name + ".post_attention_layernorm")
            gate, up = (self.linear(normed, f"{name}.mlp.{p}_proj") for p in ("gate", "up"))
            x = x + self.linear(F.silu(gate) * up, name + ".mlp.down_proj")
        return F.linear(self.norm(x[-1], "model.norm"), self.head)

    def generate(self, ids: list[int], n: int, use_cache: bool = True) -> Iterator[Tensor]:
        """Yield n times the logits (vocab,) whose argmax is the next token of ids."""
        ids, new, cache = list(ids), list(ids), {}
        for _ in range(n):
            logits = self.forward(new, cache) if use_cache else self.forward(ids, {})
            new = [int(logits.argmax())]
            ids += new
            yield logits


REFERENCE = """import sys, json, torch, transformers
folder, ids, n = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
model.generation_config = transformers.GenerationConfig()
print(model.generate(torch.tensor([ids]), max_new_tokens=n)[0, len(ids):].tolist())"""


def check(folder: str, ids: list[int], tokens: list[int]) -> bool:
    """Whether transformers, in a process of its own, continues ids with the same tokens."""
    command = [sys.executable, "-c", REFERENCE, folder, json.dumps(ids), str(len(tokens))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return tokens == json.loads(done.stdout)


def seconds(engine: MinimalEngine, ids: list[int], n: int, use_cache: bool) -> float:
    """Return how long n tokens take, prompt included."""
    start = time.perf_counter()
    assert len(list(engine.generate(ids, n, use_cache))) == n
    return time.perf_counter() - start
