"""Chapter 02: the forward pass made of ops that hold their weights; attention is still naive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

import book
from minimal_engine import attend, read_checkpoint
from minisgl.core import Batch, Context, get_global_ctx, set_global_ctx
from minisgl.layers import (
    BaseOP,
    LinearColParallelMerged,
    LinearOProj,
    LinearQKVMerged,
    LinearRowParallel,
    OPList,
    ParallelLMHead,
    RMSNorm,
    RMSNormFused,
    VocabParallelEmbedding,
    get_rope,
    silu_and_mul,
)

PROMPT = "The capital of France is"


class Layer(BaseOP):
    """One decoder layer; has: the short names of the weights that the checkpoint has for it."""

    def __init__(self, c: SimpleNamespace, has: set[str]) -> None:
        qkv_bias, o_bias = "self_attn.q_proj.bias" in has, "self_attn.o_proj.bias" in has
        self.qkv = LinearQKVMerged(c.hidden, c.head_dim, c.heads, c.kv_heads, has_bias=qkv_bias)
        self.o = LinearOProj(c.heads * c.head_dim, c.hidden, has_bias=o_bias)
        self.gate_up = LinearColParallelMerged(c.hidden, [c.inner, c.inner], has_bias=False)
        self.down = LinearRowParallel(c.inner, c.hidden, has_bias=False)
        self.norm1, self.norm2 = RMSNormFused(c.hidden, c.eps), RMSNormFused(c.hidden, c.eps)
        if "self_attn.q_norm.weight" in has:
            self.q_norm, self.k_norm = RMSNorm(c.head_dim, c.eps), RMSNorm(c.head_dim, c.eps)
        self._c, self._rope = c, get_rope(c.head_dim, c.head_dim, c.max_position, c.base, c.scaling)

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None, cache: list) -> Any:
        normed, residual = self.norm1.forward(x, residual)
        heads = [self._c.heads, self._c.kv_heads, self._c.kv_heads]
        q, k, v = self.qkv.forward(normed).view(len(x), -1, self._c.head_dim).split(heads, dim=1)
        if hasattr(self, "q_norm"):
            q, k = self.q_norm.forward(q), self.k_norm.forward(k)
        q, k = self._rope.forward(get_global_ctx().batch.positions, q, k)
        cache.append((k, v))
        k, v = (torch.cat(parts) for parts in zip(*cache, strict=True))
        normed, residual = self.norm2.forward(self.o.forward(attend(q, k, v)), residual)
        return self.down.forward(silu_and_mul(self.gate_up.forward(normed))), residual


class Model(BaseOP):
    """The whole decoder."""

    def __init__(self, folder: str) -> None:
        config, weights = read_checkpoint(folder)
        c = read_sizes(config)
        self.embed = VocabParallelEmbedding(config["vocab_size"], c.hidden)
        prefix = "model.layers.0."
        has = {name.removeprefix(prefix) for name in weights if name.startswith(prefix)}
        self.layers = OPList([Layer(c, has) for _ in range(config["num_hidden_layers"])])
        self.norm = RMSNormFused(c.hidden, c.eps)
        tied = bool(config.get("tie_word_embeddings"))
        self.head = ParallelLMHead(
            config["vocab_size"], c.hidden, False, tied, self.embed if tied else None
        )
        self.load_state_dict(merge(weights))
        self.process_weights_after_loading()

    def forward(self, caches: list[list]) -> torch.Tensor:
        x, residual = self.embed.forward(get_global_ctx().batch.input_ids), None
        for layer, cache in zip(self.layers.op_list, caches, strict=True):
            x, residual = layer.forward(x, residual, cache)
        return self.head.forward(self.norm.forward(x, residual)[0])


def read_sizes(config: dict) -> SimpleNamespace:
    """The sizes that the ops need, from config.json in either style of transformers."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    llama3 = rope.get("rope_type") == "llama3"
    return SimpleNamespace(
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        hidden=hidden,
        inner=config["intermediate_size"],
        eps=config["rms_norm_eps"],
        head_dim=config.get("head_dim") or hidden // heads,
        max_position=config["max_position_embeddings"],
        base=float(rope.get("rope_theta") or config["rope_theta"]),
        scaling=tuple(sorted(rope.items())) if llama3 else None,
    )


RENAMED = {
    "model.embed_tokens": "embed",
    "lm_head": "head",
    "model.": "",
    "self_attn.": "",
    "mlp.": "",
    "o_proj": "o",
    "down_proj": "down",
    "input_layernorm": "norm1",
    "post_attention_layernorm": "norm2",
}
MERGED = {"qkv": ("q_proj", "k_proj", "v_proj"), "gate_up": ("gate_proj", "up_proj")}


def merge(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename the checkpoint's weights to this file's ops, and put merged ones under each other."""
    for old, new in RENAMED.items():
        weights = {name.replace(old, new): tensor for name, tensor in weights.items()}
    for group, parts in MERGED.items():
        for name in [name for name in weights if parts[0] in name]:
            found = [weights.pop(name.replace(parts[0], part)) for part in parts]
            weights[name.replace(parts[0], group)] = torch.cat(found)
    return weights


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Continue each prompt, one after the other, with the ops in place."""
    book.config(config)
    model, tokens, top2 = Model(model_path), [], []
    set_global_ctx(Context(page_size=1))
    for prompt in prompts:
        tokens.append([])
        top2.append([])
        caches: list[list] = [[] for _ in model.layers.op_list]
        for step in range(max_tokens):
            logits = run(model, caches, prompt, tokens[-1], step)
            top2[-1].append(book.top2(logits))
            tokens[-1].append(int(logits.argmax()))
    ops = model.state_dict()
    return book.Generation(tokens, top2, {"weights": len(ops), "layers": len(model.layers.op_list)})


def run(
    model: Model, caches: list[list], prompt: list[int], made: list[int], step: int
) -> torch.Tensor:
    """One pass over the prompt (step 0) or over the newest token; returns logits: (vocab,)."""
    new = made[-1:] if step else prompt
    end = len(prompt) + len(made)
    batch = Batch(reqs=[None], phase="decode" if step else "prefill")
    batch.input_ids = torch.tensor(new)
    batch.positions = torch.arange(end - len(new), end)
    batch.attn_metadata = SimpleNamespace(get_last_indices=lambda bs: torch.tensor([len(new) - 1]))
    with get_global_ctx().forward_batch(batch):
        return model.forward(caches)[0]


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    model = Model(args.model)
    print("weights of layer 0 as its ops name them")
    for name, tensor in model.layers.op_list[0].state_dict().items():
        print(
            f"  {name:16} {str(tuple(tensor.shape)):14} {'packed' if tensor.is_mkldnn else 'plain'}"
        )
    print(f"all weights: {len(model.state_dict())}")
    result = generate(args.model, [book.encode(args.model, PROMPT)], args.max_tokens)
    print(f"\n{PROMPT} ->{book.decode(args.model, result.token_ids[0])!r}")
    book.report(result)


if __name__ == "__main__":
    main()
