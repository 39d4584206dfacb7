"""Chapter 03: config, decoder and weights of four model families; the cache is still naive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

import book
from minisgl.core import Batch, Context, get_global_ctx, set_global_ctx
from minisgl.models import BaseLLMModel, ModelConfig, create_model, load_weight
from minisgl.utils import cached_load_hf_config, torch_dtype

PROMPT = "The capital of France is"


class NaiveAttention:
    """Stands where chapter 05's backend will: one request, K and V in a list per layer."""

    def __init__(self, windows: tuple[int | None, ...]) -> None:
        self.windows = windows
        self.caches: list[list] = [[] for _ in windows]

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer_id: int, batch: Batch
    ) -> torch.Tensor:
        cache = self.caches[layer_id]
        cache.append((k, v))
        k, v = (torch.cat(parts) for parts in zip(*cache, strict=True))
        return attend(q, k, v, self.windows[layer_id])


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None) -> torch.Tensor:
    """q: (new, heads, d); k, v: (all, kv_heads, d) -> (new, heads, d); a query sees window keys."""
    new, total, group = len(q), len(k), q.shape[1] // k.shape[1]
    age = torch.arange(total - new, total)[:, None] - torch.arange(total)
    hidden = (age < 0) | (age >= (window or total))
    k, v = (t.repeat_interleave(group, dim=1).transpose(0, 1) for t in (k, v))
    scores = q.transpose(0, 1) @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    return (scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v).transpose(0, 1)


def build(model_path: str) -> tuple[BaseLLMModel, ModelConfig]:
    """The model with its weights; on the meta device until these are read."""
    config = ModelConfig.from_hf(cached_load_hf_config(model_path))
    with torch.device("meta"), torch_dtype(torch.float32):
        model = create_model(config)
    weights = load_weight(model_path, torch.device("cpu"), torch.float32)
    model.load_state_dict(dict(weights))
    model.process_weights_after_loading()
    return model, config


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Continue each prompt, one after the other, with the finished model."""
    book.config(config)
    model, model_config = build(model_path)
    ctx = Context(page_size=1)
    set_global_ctx(ctx)
    tokens, top2 = [], []
    for prompt in prompts:
        ctx.attn_backend = NaiveAttention(model_config.layer_windows)
        ids = list(prompt)
        top2.append([])
        for step in range(max_tokens):
            logits = run(model, ids, new=1 if step else len(prompt))
            top2[-1].append(book.top2(logits))
            ids.append(int(logits.argmax()))
        tokens.append(ids[len(prompt) :])
    merged = [name for name in model.state_dict() if "qkv_proj" in name or "gate_up_proj" in name]
    return book.Generation(tokens, top2, {"merged_weights": len(merged)})


def run(model: BaseLLMModel, ids: list[int], new: int) -> torch.Tensor:
    """One pass over the last new tokens of ids; returns logits: (vocab,)."""
    batch = Batch(reqs=[None], phase="decode" if new == 1 else "prefill")
    batch.input_ids = torch.tensor(ids[-new:])
    batch.positions = torch.arange(len(ids) - new, len(ids))
    batch.attn_metadata = SimpleNamespace(get_last_indices=lambda bs: torch.tensor([new - 1]))
    with get_global_ctx().forward_batch(batch):
        return model.forward()[0]


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    model, config = build(args.model)
    print(f"{config.architectures[0]}: {config.num_layers} layers, hidden {config.hidden_size},")
    print(f"  {config.num_qo_heads} heads on {config.num_kv_heads} kv heads of {config.head_dim},")
    print(f"  rope base {config.rotary_config.base:.0f}, scaling {config.rotary_config.scaling},")
    print(f"  tied head {config.tie_word_embeddings}, window {config.layer_windows[0]}")
    print("\nweights after merging (layer 0 and the rest)")
    for name, tensor in model.state_dict().items():
        if ".layers." not in name or ".layers.0." in name:
            print(f"  {name:46} {tuple(tensor.shape)}")
    result = generate(args.model, [book.encode(args.model, PROMPT)], args.max_tokens)
    print(f"\n{PROMPT} ->{book.decode(args.model, result.token_ids[0])!r}")
    book.report(result)


if __name__ == "__main__":
    main()
