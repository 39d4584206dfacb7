"""Chapter 04: the pool gives back what was stored, and nothing else changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from pairs import close, draw, equal, error_of, refused

LAYERS, PAGES, HEADS, DIM = 3, 4, 2, 6
PAGE_SIZES = (1, 4, 16)


def pool(page_size: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Any:
    """A pool for a model of LAYERS layers with HEADS kv heads of DIM channels."""
    from transformers import LlamaConfig

    from minisgl.kvcache import create_kvcache_pool
    from minisgl.models import ModelConfig

    config = LlamaConfig(
        num_hidden_layers=LAYERS,
        num_attention_heads=2 * HEADS,
        num_key_value_heads=HEADS,
        head_dim=DIM,
        hidden_size=12,
    )
    model_config = ModelConfig.from_hf(config)
    return create_kvcache_pool(model_config, PAGES, page_size, dtype, torch.device(device))


def slots_of(page_size: int) -> list[int]:
    """Slots out of order: the last, the first and one in between."""
    last = PAGES * page_size - 1
    return [last, 0, last // 2]


def probe_k_and_v_are_read_back_from_the_slots_they_were_stored_in(seed):
    k, v = torch.from_numpy(draw(seed, 2, 3, HEADS, DIM))
    found = []
    for size in PAGE_SIZES:
        cache, slots = pool(size), slots_of(size)
        cache.store_kv(k, v, torch.tensor(slots, dtype=torch.int32), 1)
        places = [(slot // size, slot % size) for slot in slots]
        found.append([
            [half[page, place].tolist() for page, place in places]
            for half in (cache.k_cache(1), cache.v_cache(1))
        ])  # fmt: skip
    return found


def judge_k_and_v_are_read_back_from_the_slots_they_were_stored_in(seed, got):
    want = draw(seed, 2, 3, HEADS, DIM)
    equal(got, [want] * len(PAGE_SIZES), "K and V at page sizes 1, 4 and 16")


def probe_a_store_touches_no_other_slot_half_or_layer(seed):
    k, v = torch.from_numpy(draw(seed, 2, 3, HEADS, DIM))
    found = []
    for size in PAGE_SIZES:
        cache = pool(size)
        halves = [half(layer) for layer in range(LAYERS) for half in (cache.k_cache, cache.v_cache)]
        for half in halves:
            half.fill_(100.0)
        cache.store_kv(k, v, torch.tensor(slots_of(size)), 2)
        changed = [(half != 100.0).all(-1).all(-1).flatten() for half in halves]
        untouched = [(half == 100.0).all(-1).all(-1).flatten() for half in halves]
        found.append({
            "changed": [c.nonzero().flatten().tolist() for c in changed],
            "untouched": [int(u.sum()) for u in untouched],
        })  # fmt: skip
    return found


def judge_a_store_touches_no_other_slot_half_or_layer(seed, got):
    for size, found in zip(PAGE_SIZES, got, strict=True):
        slots = sorted(slots_of(size))
        all_slots = PAGES * size
        equal(found["changed"], [[], [], [], [], slots, slots], f"written slots, page size {size}")
        kept = [all_slots] * 4 + [all_slots - 3] * 2
        equal(found["untouched"], kept, f"number of slots left alone, page size {size}")


def probe_layers_and_halves_hold_their_own_values(seed):
    data = torch.from_numpy(draw(seed, LAYERS, 2, 1, HEADS, DIM))
    cache = pool(4)
    for layer, (k, v) in enumerate(data):
        cache.store_kv(k, v, torch.tensor([6]), layer)
    return [[cache.k_cache(i)[1, 2].tolist(), cache.v_cache(i)[1, 2].tolist()] for i in range(3)]


def judge_layers_and_halves_hold_their_own_values(seed, got):
    want = draw(seed, LAYERS, 2, 1, HEADS, DIM)[:, :, 0]
    equal(got, want, "K and V of slot 6 in each layer")


def probe_a_second_store_replaces_the_first(seed):
    first, second = torch.from_numpy(draw(seed, 2, 2, HEADS, DIM))
    cache = pool(4)
    cache.store_kv(first, -first, torch.tensor([3, 4]), 0)
    cache.store_kv(second, -second, torch.tensor([4, 5]), 0)
    slots = cache.k_cache(0).flatten(0, 1)[3:6], cache.v_cache(0).flatten(0, 1)[3:6]
    return [half.tolist() for half in slots]


def judge_a_second_store_replaces_the_first(seed, got):
    first, second = draw(seed, 2, 2, HEADS, DIM)
    want = [first[0].tolist(), second[0].tolist(), second[1].tolist()]
    equal(got[0], want, "K of slots 3, 4 and 5")
    close(got[1], [[[-x for x in head] for head in slot] for slot in want], 0.0, "V, its negative")


def probe_the_pool_has_the_shape_dtype_and_place_that_were_asked_for(seed):
    found = []
    for size, dtype, device in ((1, torch.float32, "cpu"), (4, torch.bfloat16, "meta")):
        cache = pool(size, dtype, device)
        shapes = [list(cache.k_cache(0).shape), list(cache.v_cache(LAYERS - 1).shape)]
        kinds = [str(cache.dtype), str(cache.k_cache(1).dtype), str(cache.device)]
        found.append([shapes, kinds, str(cache.v_cache(1).device), cache.num_layers])
    return found


def judge_the_pool_has_the_shape_dtype_and_place_that_were_asked_for(seed, got):
    for size, dtype, device, found in (
        (1, "torch.float32", "cpu", got[0]),
        (4, "torch.bfloat16", "meta", got[1]),
    ):
        shapes, kinds, place, layers = found
        equal(shapes, [[PAGES, size, HEADS, DIM]] * 2, "shapes of K and V in a layer")
        equal(kinds, [dtype, dtype, device], "dtype of the pool, of a layer's K, and device")
        equal(place, device, "device of a layer's V")
        equal(layers, LAYERS, "number of layers")


def probe_the_pool_takes_no_more_memory_than_its_k_and_v(seed):
    return [pool(size).k_cache(0).untyped_storage().nbytes() for size in PAGE_SIZES]


def judge_the_pool_takes_no_more_memory_than_its_k_and_v(seed, got):
    values = [2 * LAYERS * PAGES * size * HEADS * DIM for size in PAGE_SIZES]
    equal(got, [4 * count for count in values], "bytes at page sizes 1, 4 and 16")


def probe_more_ranks_than_kv_heads_hold_one_head_each(seed):
    ranks = "minisgl.kvcache.mha_pool.get_tp_info"
    with patch(ranks, return_value=SimpleNamespace(rank=0, size=2 * HEADS)):
        return pool(1).k_cache(0).shape[-2]


def judge_more_ranks_than_kv_heads_hold_one_head_each(seed, got):
    equal(got, 1, "kv heads of a rank, where two ranks share each head")


def probe_values_are_stored_in_the_dtype_of_the_pool(seed):
    k = torch.from_numpy(draw(seed, 2, HEADS, DIM)).bfloat16()
    cache = pool(4, torch.bfloat16)
    cache.store_kv(k, -k, torch.tensor([0, 9]), 0)
    stored = cache.k_cache(0).flatten(0, 1)[[0, 9]]
    return [str(stored.dtype), torch.equal(stored, k)]


def judge_values_are_stored_in_the_dtype_of_the_pool(seed, got):
    equal(got, ["torch.bfloat16", True], "dtype, and whether K came back bit for bit")


def probe_a_pool_that_leaves_something_out_cant_be_made(seed):
    from minisgl.kvcache import BaseKVCachePool

    names = sorted(BaseKVCachePool.__abstractmethods__)
    whole = type("Whole", (BaseKVCachePool,), dict.fromkeys(names))
    whole()
    parts = [{name: None for name in names if name != left_out} for left_out in names]
    return [names, [error_of(type("Part", (BaseKVCachePool,), part)) for part in parts]]


def judge_a_pool_that_leaves_something_out_cant_be_made(seed, got):
    names, errors = got
    equal(names, ["device", "dtype", "k_cache", "num_layers", "store_kv", "v_cache"], "what it has")
    for name, error in zip(names, errors, strict=True):
        refused(error, f"a pool without {name}", name, kind="TypeError")


def probe_a_handle_says_how_long_its_prefix_is_and_cant_be_changed(seed):
    from minisgl.kvcache import BaseCacheHandle

    class Handle(BaseCacheHandle):
        def get_matched_indices(self) -> torch.Tensor:
            return torch.arange(self.cached_len)

    handle = Handle(3)
    change = error_of(lambda: setattr(handle, "cached_len", 4))
    return [handle.cached_len, handle.get_matched_indices().tolist(), change,
            error_of(lambda: BaseCacheHandle(3))]  # fmt: skip


def judge_a_handle_says_how_long_its_prefix_is_and_cant_be_changed(seed, got):
    equal(got[:2], [3, [0, 1, 2]], "cached_len and slots of the handle")
    refused(got[2], "a change of cached_len", "cached_len", kind="FrozenInstanceError")
    refused(got[3], "a handle that can't say its slots", "get_matched_indices", kind="TypeError")
