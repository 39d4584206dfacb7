"""Chapter 05: which keys a query sees under a sliding window.

Every value vector has a one in a channel of its own, so a query's output tells which keys it saw.
"""

from __future__ import annotations

import torch

from pairs import draw, equal, public_bug

DIM = 16
Span = tuple[int, int]


def seen(
    seed: int,
    spans: list[Span],
    window: int | None,
    layers: tuple[int | None, ...] = (),
    is_in_a_row: bool = False,
) -> list[list[list[int]]]:
    """For each layer and each new token, the positions of the keys that it sees.

    spans: (cached, total) tokens of each request, at most DIM. window: of a Mistral config;
    layers, where given, has each layer's own. The slots are scrambled, or follow each other.
    """
    from dataclasses import replace

    from transformers import MistralConfig

    from minisgl.attention import create_attention_backend
    from minisgl.core import Batch, Context, Req, SamplingParams, set_global_ctx
    from minisgl.kvcache import create_kvcache_pool
    from minisgl.models import ModelConfig

    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    sizes = {"num_hidden_layers": max(1, len(layers)), "head_dim": DIM, "hidden_size": 12}
    config = ModelConfig.from_hf(MistralConfig(**heads, **sizes, sliding_window=window))
    if layers:
        config = replace(config, layer_windows=layers)
    ctx, count = Context(1), len(spans)
    set_global_ctx(ctx)
    ctx.kv_cache = create_kvcache_pool(config, count * DIM, 1, torch.float32, torch.device("cpu"))
    slots = torch.randperm(count * DIM, generator=torch.Generator().manual_seed(seed))
    ctx.page_table = (slots.sort()[0] if is_in_a_row else slots).view(count, DIM).int()
    ctx.attn_backend = create_attention_backend("torch", config)
    reqs = [
        Req(torch.zeros(total, dtype=torch.int32), row, cached, 1, row, SamplingParams(), None)
        for row, (cached, total) in enumerate(spans)
    ]
    batch = Batch(reqs, "decode" if all(n == c + 1 for c, n in spans) else "prefill")
    new = [(row, i) for row, span in enumerate(spans) for i in range(*span)]
    rows, positions = torch.tensor(new).T
    batch.out_loc = ctx.page_table[rows, positions]
    ctx.attn_backend.prepare_metadata(batch)
    q, k = torch.from_numpy(draw(seed, 2, len(new), 2, DIM))
    values = torch.eye(DIM)[:, None]
    found = []
    for layer in range(config.num_layers):
        for row, (cached, _) in enumerate(spans):
            old = ctx.page_table[row, :cached]
            ctx.kv_cache.store_kv(torch.ones(cached, 1, DIM), values[:cached], old, layer)
        out = ctx.attn_backend.forward(q, k[:, :1], values[positions], layer, batch)
        found.append([row[0].nonzero().flatten().tolist() for row in out])
    return found


def sees(spans: list[Span], window: int) -> list[list[int]]:
    """The last `window` keys up to each new token, itself counted."""
    return [list(range(max(0, i - window + 1), i + 1)) for span in spans for i in range(*span)]


@public_bug("B10")
def probe_with_a_window_of_4_position_10_sees_7_to_10(seed):
    decoded = seen(seed, [(10, 11)], 4)[0]
    prompt = seen(seed, [(0, 11)], 4)[0]
    behind_prefix = seen(seed, [(6, 11)], 4)[0]
    in_a_batch = seen(seed, [(0, 3), (10, 11)], 4)[0]
    return [decoded[0], prompt[10], behind_prefix[4], in_a_batch[3]]


def judge_with_a_window_of_4_position_10_sees_7_to_10(seed, got):
    equal(got, [[7, 8, 9, 10]] * 4, "keys in decode, a prompt, behind a prefix and in a batch")


@public_bug("B10")
def probe_without_a_window_every_key_before_is_seen(seed):
    return [seen(seed, [span], None)[0] for span in ((10, 11), (0, 11), (6, 11))]


def judge_without_a_window_every_key_before_is_seen(seed, got):
    for span, found in zip(((10, 11), (0, 11), (6, 11)), got, strict=True):
        equal(found, sees([span], DIM), f"keys that {span} sees when sliding_window is null")


SPANS = [[(0, 12)], [(3, 12)], [(8, 12)], [(0, 2)], [(11, 12)], [(2, 3)]]
WINDOWS = (1, 2, 5, 11, 12, 13, 100)


@public_bug("B10")
def probe_each_token_sees_as_many_keys_as_the_window_has(seed):
    return [[seen(seed, spans, window)[0] for spans in SPANS] for window in WINDOWS]


def judge_each_token_sees_as_many_keys_as_the_window_has(seed, got):
    for window, found in zip(WINDOWS, got, strict=True):
        want = [sees(spans, window) for spans in SPANS]
        equal(found, want, f"keys that new tokens of {SPANS} see through a window of {window}")


BATCHES = [[(0, 3), (0, 9), (4, 12), (7, 8)], [(2, 3), (8, 9), (14, 15), (0, 1)]]


def probe_a_window_is_counted_from_each_request_s_own_tokens(seed):
    return [seen(seed, spans, 5)[0] for spans in BATCHES]


def judge_a_window_is_counted_from_each_request_s_own_tokens(seed, got):
    equal(got, [sees(spans, 5) for spans in BATCHES], "keys seen in a mixed batch and in a decode")


def probe_a_window_shows_the_same_keys_when_slots_follow_each_other(seed):
    return [seen(seed, spans, 5, is_in_a_row=True)[0] for spans in BATCHES]


def judge_a_window_shows_the_same_keys_when_slots_follow_each_other(seed, got):
    equal(got, [sees(spans, 5) for spans in BATCHES], "keys seen in a mixed batch and in a decode")


LAYERS = (None, 3, 6, 3)


def probe_each_layer_has_its_own_window(seed):
    return [seen(seed, spans, None, LAYERS) for spans in BATCHES]


def judge_each_layer_has_its_own_window(seed, got):
    for spans, found in zip(BATCHES, got, strict=True):
        want = [sees(spans, window or DIM) for window in LAYERS]
        equal(found, want, f"keys seen in layers with windows {LAYERS}")
