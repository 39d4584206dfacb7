"""Chapter 05: attention over a scrambled, dirty pool equals a plain formula in float64."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pairs import close, draw, equal, error_of, refused, truth

DIM, LAYER = 8, 1


class Case(NamedTuple):
    """One forward pass. spans: for each request, tokens in the pool already, and tokens in all.

    heads: of q, and of k and v. dirt: what every slot of the pool holds before. spare: pages and
    columns of the page table that no request uses. pages: in which order they are handed out;
    "swapped" is in a row but for the second and third.
    """

    spans: list[tuple[int, int]]
    page_size: int = 4
    heads: tuple[int, int] = (4, 2)
    dirt: float = math.nan
    spare: int = 3
    pages: str = "scrambled"


def inputs(seed: int, case: Case) -> list[list[np.ndarray]]:
    """q, k, v of each request, for all its tokens: (tokens, heads, DIM)"""
    heads = (case.heads[0], case.heads[1], case.heads[1])
    return [
        [draw(seed + 3 * i + j, total, n, DIM) for j, n in enumerate(heads)]
        for i, (_, total) in enumerate(case.spans)
    ]


def expected(seed: int, case: Case) -> list[list[float]]:
    """What each new token gets, all heads in one row: it sees itself and all before it."""
    rows = []
    for (cached, total), drawn in zip(case.spans, inputs(seed, case), strict=True):
        q, k, v = (x.astype(np.float64) for x in drawn)
        for i in range(cached, total):
            row: list[float] = []
            for head in range(case.heads[0]):
                shared = head * case.heads[1] // case.heads[0]
                scores = np.exp(k[: i + 1, shared] @ q[i, head] / math.sqrt(DIM))
                row += (scores / scores.sum() @ v[: i + 1, shared]).tolist()
            rows.append(row)
    return rows


def layout(seed: int, case: Case) -> tuple[int, list[int], np.ndarray]:
    """Number of pages, each request's row, and a page table whose unused entries are garbage."""
    size, rng = case.page_size, np.random.default_rng(seed)
    needed = [-(-total // size) for _, total in case.spans]
    order = rng.permutation(sum(needed) + case.spare)
    if case.pages != "scrambled":
        order.sort()
    if case.pages == "backward":
        order = order[::-1]
    if case.pages == "swapped":
        order[[1, 2]] = order[[2, 1]]
    rows = rng.permutation(len(needed) + 2)[: len(needed)].tolist()
    width = max(total for _, total in case.spans) + case.spare
    table = rng.integers(0, len(order) * size, (len(needed) + 2, width))
    pages = np.split(order, np.cumsum(needed))
    for (_, total), row, own in zip(case.spans, rows, pages, strict=False):
        table[row, :total] = (own[:, None] * size + np.arange(size)).ravel()[:total]
    return len(order), rows, table


def prepared(seed: int, case: Case) -> SimpleNamespace:
    """A backend that is ready for the batch, and q, k, v of the batch's new tokens."""
    from transformers import LlamaConfig

    from minisgl.attention import create_attention_backend
    from minisgl.core import Batch, Context, Req, SamplingParams, set_global_ctx
    from minisgl.kvcache import create_kvcache_pool
    from minisgl.models import ModelConfig

    heads = {"num_attention_heads": case.heads[0], "num_key_value_heads": case.heads[1]}
    sizes = {"num_hidden_layers": 2, "hidden_size": 12, "head_dim": DIM}
    config = ModelConfig.from_hf(LlamaConfig(**heads, **sizes))
    num_pages, rows, table = layout(seed, case)
    ctx, cpu = Context(case.page_size), torch.device("cpu")
    set_global_ctx(ctx)
    ctx.kv_cache = create_kvcache_pool(config, num_pages, case.page_size, torch.float32, cpu)
    for half in (ctx.kv_cache.k_cache, ctx.kv_cache.v_cache):
        half(0).fill_(case.dirt)
        half(1).fill_(case.dirt)
    ctx.page_table = torch.from_numpy(table).int()
    ctx.attn_backend = create_attention_backend("torch", config)
    batch = Batch([], "decode" if all(n == c + 1 for c, n in case.spans) else "prefill")
    new, out_loc = [], []
    for i, ((cached, total), drawn) in enumerate(zip(case.spans, inputs(seed, case), strict=True)):
        q, k, v = map(torch.from_numpy, drawn)
        slots = ctx.page_table[rows[i], :total]
        ctx.kv_cache.store_kv(k[:cached], v[:cached], slots[:cached], LAYER)
        new.append([q[cached:], k[cached:], v[cached:]])
        out_loc.append(slots[cached:])
        ids = torch.zeros(total, dtype=torch.int32)
        batch.reqs.append(Req(ids, rows[i], cached, 1, i, SamplingParams(), None))
    batch.out_loc = torch.cat(out_loc)
    ctx.attn_backend.prepare_metadata(batch)
    q, k, v = (torch.cat(parts) for parts in zip(*new, strict=True))
    return SimpleNamespace(ctx=ctx, batch=batch, q=q, k=k, v=v)


def run(ready: SimpleNamespace) -> torch.Tensor:
    """The backend's answer: (new tokens, heads * DIM)"""
    backend = ready.ctx.attn_backend
    return backend.forward(ready.q, ready.k, ready.v, LAYER, ready.batch).flatten(1)


def outputs(seed: int, cases: list[Case]) -> list[list[list[float]]]:
    return [run(prepared(seed, case)).tolist() for case in cases]


def check(seed: int, cases: list[Case], got: list[list[list[float]]]) -> None:
    for case, rows in zip(cases, got, strict=True):
        close(rows, expected(seed, case), 1e-5, f"new tokens of {case}")


PREFILLS = [Case([(0, 1), (0, 5), (0, 17)], size) for size in (1, 4, 16)]


def probe_a_prompt_sees_its_own_tokens_up_to_each_position(seed):
    return outputs(seed, PREFILLS)


def judge_a_prompt_sees_its_own_tokens_up_to_each_position(seed, got):
    check(seed, PREFILLS, got)


CACHED = [Case([(4, 9), (1, 18), (16, 18)], size) for size in (1, 4, 16)]


def probe_new_tokens_see_the_cached_prefix_before_them(seed):
    return outputs(seed, CACHED)


def judge_new_tokens_see_the_cached_prefix_before_them(seed, got):
    check(seed, CACHED, got)


DECODES = [Case([(2, 3), (16, 17), (32, 33), (7, 8)], size) for size in (1, 4, 16)]


def probe_a_decoded_token_sees_all_tokens_before_it(seed):
    return outputs(seed, DECODES)


def judge_a_decoded_token_sees_all_tokens_before_it(seed, got):
    check(seed, DECODES, got)


MIXED = [Case([(0, 1), (7, 8), (3, 20), (0, 33), (31, 32)], size) for size in (1, 4, 16)]


def probe_prompts_with_and_without_prefix_and_single_tokens_mix_in_one_batch(seed):
    return outputs(seed, MIXED)


def judge_prompts_with_and_without_prefix_and_single_tokens_mix_in_one_batch(seed, got):
    check(seed, MIXED, got)


ORDERS = [
    Case(spans, size, pages=pages)
    for pages in ("in a row", "backward", "swapped")
    for size in (1, 4)
    for spans in ([(15, 16), (6, 7), (20, 21)], [(0, 16), (5, 16), (0, 1)])
]


def probe_pages_in_a_row_are_read_like_any_others(seed):
    return outputs(seed, ORDERS)


def judge_pages_in_a_row_are_read_like_any_others(seed, got):
    check(seed, ORDERS, got)


ALONE = [Case([span]) for span in ((0, 1), (0, 6), (5, 6), (3, 6), (1, 2))]


def probe_a_request_may_be_alone_in_its_batch(seed):
    return outputs(seed, ALONE)


def judge_a_request_may_be_alone_in_its_batch(seed, got):
    check(seed, ALONE, got)


GROUPS = [
    Case(spans, heads=heads)
    for heads in ((3, 3), (6, 2), (4, 1), (1, 1))
    for spans in ([(0, 6), (2, 5)], [(5, 6), (2, 3)])
]


def probe_neighboring_query_heads_share_a_kv_head(seed):
    return outputs(seed, GROUPS)


def judge_neighboring_query_heads_share_a_kv_head(seed, got):
    check(seed, GROUPS, got)


STALE = [
    Case(spans, dirt=dirt)
    for spans in ([(0, 5), (3, 9)], [(4, 5), (8, 9)])
    for dirt in (0.0, 1e9, -1e9, math.nan)
]


def probe_what_other_slots_hold_never_matters(seed):
    return outputs(seed, STALE)


def judge_what_other_slots_hold_never_matters(seed, got):
    for i in range(0, len(STALE), 4):
        close(got[i], expected(seed, STALE[i]), 1e-5, "in a clean pool")
        equal(got[i + 1 : i + 4], [got[i]] * 3, "in a pool of 1e9, of -1e9 and of NaN")


def probe_k_and_v_of_new_tokens_are_in_the_pool_afterwards(seed):
    ready = prepared(seed, Case([(2, 5), (0, 3)]))
    run(ready)
    pool = ready.ctx.kv_cache
    halves = [half(LAYER).flatten(0, 1) for half in (pool.k_cache, pool.v_cache)]
    other = [half(0).isnan().all().item() for half in (pool.k_cache, pool.v_cache)]
    return [[half[ready.batch.out_loc].tolist() for half in halves], other]


def judge_k_and_v_of_new_tokens_are_in_the_pool_afterwards(seed, got):
    (_, k, v), (_, k2, v2) = inputs(seed, Case([(2, 5), (0, 3)]))
    equal(got[0][0], np.concatenate([k[2:], k2]), "K at out_loc")
    equal(got[0][1], np.concatenate([v[2:], v2]), "V at out_loc")
    equal(got[1], [True, True], "the other layer is left alone")


def probe_last_tokens_are_found_in_the_flat_batch(seed):
    found = []
    for spans in ([(0, 3), (0, 1), (4, 9)], [(2, 3), (6, 7), (0, 1)]):
        metadata = prepared(seed, Case(spans)).batch.attn_metadata
        found.append([metadata.get_last_indices(n).tolist() for n in (3, 2, 1)])
    return found


def judge_last_tokens_are_found_in_the_flat_batch(seed, got):
    equal(got[0], [[2, 3, 8], [2, 3], [2]], "3, 1 and 5 new tokens; of 3, 2 and 1 requests")
    equal(got[1], [[0, 1, 2], [0, 1], [0]], "one new token each; of 3, 2 and 1 requests")


def probe_a_change_of_the_page_table_after_preparing_waits_for_the_next_batch(seed):
    found = []
    for spans in ([(0, 5), (3, 9)], [(4, 5), (8, 9)]):
        ready = prepared(seed, Case(spans))
        ready.ctx.page_table.zero_()
        found.append(run(ready).tolist())
    return found


def judge_a_change_of_the_page_table_after_preparing_waits_for_the_next_batch(seed, got):
    check(seed, [Case([(0, 5), (3, 9)]), Case([(4, 5), (8, 9)])], got)


def probe_a_batch_that_another_backend_prepared_is_refused(seed):
    ready = prepared(seed, Case([(0, 2)]))
    ready.batch.attn_metadata = SimpleNamespace()
    return error_of(lambda: run(ready))


def judge_a_batch_that_another_backend_prepared_is_refused(seed, got):
    refused(got, "metadata of an unknown kind", "prepare_metadata")


class Elements(TorchDispatchMode):
    """Counts the elements of all tensors that are made inside the with block."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        is_view = any(value.alias_info for value in func._schema.returns)
        made = result if isinstance(result, tuple | list) else [result]
        if not is_view:
            self.count += sum(x.numel() for x in made if isinstance(x, torch.Tensor))
        return result


def work(seed: int, case: Case) -> int:
    """How many elements the backend makes for a batch."""
    ready = prepared(seed, case)
    with Elements() as elements:
        ready.ctx.attn_backend.prepare_metadata(ready.batch)
        run(ready)
    return elements.count


def probe_k_and_v_that_lie_in_a_row_are_not_copied(seed):
    spans = [(255, 256)]
    return {pages: work(seed, Case(spans, pages=pages)) for pages in ("forward", "scrambled")}


def judge_k_and_v_that_lie_in_a_row_are_not_copied(seed, got):
    copied = 2 * 256 * 2 * DIM  # K and V, tokens, kv heads, channels
    truth(got["scrambled"] >= copied, "scattered slots are gathered", got)
    truth(got["forward"] < copied / 2, "slots in a row are read where they are", got)


def probe_work_grows_with_the_real_tokens_only(seed):
    spans = [(255, 256), *[(1, 2)] * 15]
    return {
        "together": work(seed, Case(spans)),
        "one by one": sum(work(seed, Case([span])) for span in spans),
        "with a large pool": work(seed, Case(spans, spare=1000)),
        "twice as long": work(seed, Case([(511, 512)])),
        "once": work(seed, Case([(255, 256)])),
    }


def judge_work_grows_with_the_real_tokens_only(seed, got):
    truth(got["once"] > 256 * 2 * DIM, "K of 256 tokens is gathered", got)
    truth(got["together"] <= 2 * got["one by one"], "short requests don't pay for a long one", got)
    equal(got["with a large pool"], got["together"], "work with 1000 more pages and columns")
    truth(got["twice as long"] <= 2.1 * got["once"], "twice the tokens are twice the work", got)
