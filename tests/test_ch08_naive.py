"""Chapter 08: the cache that keeps nothing, how a cache is chosen, and what all of them return."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, error_of, refused
from stub_engine import said, stub_scheduler, user

CPU = torch.device("cpu")


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def probe_the_naive_cache_finds_and_keeps_nothing(seed):
    from minisgl.kvcache import BasePrefixCache
    from minisgl.kvcache.naive_cache import NaivePrefixCache

    cache = NaivePrefixCache(CPU)
    empty = cache.match_prefix(ints([1, 2, 3])).cuda_handle
    length, handle = cache.insert_prefix(ints([1, 2, 3]), ints([7, 8, 9]))
    cache.lock_handle(handle)
    cache.lock_handle(handle, unlock=True)
    cache.check_integrity()
    again = cache.match_prefix(ints([1, 2, 3])).cuda_handle
    cache.reset()
    lengths = [h.cached_len for h in (empty, handle, again)]
    slots = [h.get_matched_indices() for h in (empty, handle, again)]
    slots += [cache.all_indices(), cache.evict(0)]
    kinds = [[len(x), str(x.dtype), str(x.device)] for x in slots]
    sizes = [*cache.size_info, cache.size_info.total_size]
    return [isinstance(cache, BasePrefixCache), length, lengths, kinds, sizes]


def judge_the_naive_cache_finds_and_keeps_nothing(seed, got):
    equal(got[:3], [True, 0, [0, 0, 0]], "a prefix cache; cached lengths")
    equal(got[3], [[0, "torch.int32", "cpu"]] * 5, "slots of three handles, of all, of an eviction")
    equal(got[4], [0, 0, 0], "evictable, protected and total size")


def probe_the_naive_cache_can_not_evict(seed):
    from minisgl.kvcache.naive_cache import NaivePrefixCache

    cache = NaivePrefixCache(CPU)
    return [*(error_of(lambda n=n: cache.evict(n)) for n in (3, 1)), cache.evict(0).tolist()]


def judge_the_naive_cache_can_not_evict(seed, got):
    for count, error in zip((3, 1), got[:2], strict=True):
        refused(error, f"an eviction of {count}", f"{count} tokens", "naive", kind="RuntimeError")
    equal(got[2], [], "what an eviction of nothing frees")


def probe_what_a_cache_returns_has_names(seed):
    from minisgl.kvcache import InsertResult, MatchResult, SizeInfo

    size, inserted = SizeInfo(5, 7), InsertResult(4, "handle")
    fields = [size.evictable_size, size.protected_size, size.total_size]
    return [fields, [inserted.cached_len, inserted.handle], MatchResult("handle").cuda_handle]


def judge_what_a_cache_returns_has_names(seed, got):
    equal(got, [[5, 7, 12], [4, "handle"], "handle"], "sizes, an insertion, a match")


def probe_a_cache_is_chosen_by_name(seed):
    from minisgl.kvcache import SUPPORTED_CACHE_MANAGER, create_prefix_cache

    made = type(create_prefix_cache(CPU, "naive")).__name__
    unknown = error_of(lambda: create_prefix_cache(CPU, type="clever"))
    return [made, "naive" in SUPPORTED_CACHE_MANAGER.supported_names(), unknown]


def judge_a_cache_is_chosen_by_name(seed, got):
    equal(got[:2], ["NaivePrefixCache", True], "what naive is; whether it is listed")
    refused(got[2], "an unknown cache", "prefix cache", "clever", "naive", kind="ValueError")


def probe_the_scheduler_takes_the_cache_that_its_config_names(seed):
    scheduler = stub_scheduler(cache_type="naive")
    for uid in (0, 1):
        scheduler.send(user(uid, [1, 2, 3, 4], 2))
        scheduler.run()
    kind = type(scheduler.cache_manager.prefix_cache).__name__
    first = [rows for phase, rows in scheduler.batches if phase == "prefill"]
    unknown = error_of(lambda: stub_scheduler(cache_type="clever"))
    return [kind, first, scheduler.replies[1], unknown]


def judge_the_scheduler_takes_the_cache_that_its_config_names(seed, got):
    equal(got[0], "NaivePrefixCache", "the cache")
    equal(got[1], [[[0, 0, 4]], [[1, 0, 4]]], "the same prompt twice, computed as a whole twice")
    equal(got[2], said([1, 2, 3, 4], 2), "replies")
    refused(got[3], "an unknown cache", "clever", kind="ValueError")
