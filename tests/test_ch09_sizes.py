"""Chapter 09: whatever is done to the radix tree, its sizes and slots are a plain model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pairs import equal, public_bug, truth

PAGE_SIZES = (1, 2, 4)


def radix_cache(size: int) -> Any:
    from minisgl import core
    from minisgl.kvcache.radix_cache import RadixPrefixCache

    core.set_global_ctx(core.Context(page_size=size))
    return RadixPrefixCache(torch.device("cpu"))


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def told(handle: Any) -> list[Any]:
    """A handle's length and slots."""
    return [handle.cached_len, handle.get_matched_indices().tolist()]


def steps_of(seed: int, size: int) -> list[Any]:
    """500 operations, drawn the same on both sides; ids come from an alphabet of three."""
    rng = np.random.default_rng([seed, size])
    kinds = ("insert", "insert", "match", "lock", "unlock", "evict")
    drawn = [(str(rng.choice(kinds)), rng.integers(1, 4, rng.integers(0, 12)).tolist(),
              int(rng.integers(0, 1000))) for _ in range(500)]  # fmt: skip
    return [list(step) for step in drawn]


@public_bug("B44")
def probe_sizes_stay_right_over_random_operations(seed):
    found = []
    for size in PAGE_SIZES:
        cache, held, log = radix_cache(size), [], []
        fresh = iter(range(0, 500 * 12 * size, 12 * size))
        for kind, ids, number in steps_of(seed, size):
            said: Any = None
            if kind == "insert":
                start = next(fresh)
                result = cache.insert_prefix(ints(ids), ints(range(start, start + len(ids))))
                said = [result.cached_len, start, told(result.handle)]
            elif kind == "evict":
                most = cache.size_info.evictable_size
                said = cache.evict(min(most, number % 8)).tolist()
            elif kind == "unlock" and held:
                cache.lock_handle(held.pop(number % len(held)), unlock=True)
            elif kind != "unlock":
                handle = cache.match_prefix(ints(ids)).cuda_handle
                said = told(handle)
                if kind == "lock":
                    cache.lock_handle(handle)
                    held.append(handle)
            cache.check_integrity()
            log.append([said, list(cache.size_info), len(cache.all_indices())])
        found.append(log)
    return found


class Model:
    """What is cached, prefix by prefix of whole pages: each one's slots, and its locks."""

    def __init__(self, size: int) -> None:
        self.size, self.held = size, []
        self.slots: dict[tuple[int, ...], list[int]] = {}

    def prefixes(self, ids: list[int]) -> list[tuple[int, ...]]:
        ends = range(self.size, len(ids) + 1, self.size)
        return [tuple(ids[:end]) for end in ends]

    def told(self, ids: list[int]) -> list[Any]:
        """Length and slots of the longest cached prefix."""
        found = [self.slots[p] for p in self.prefixes(ids) if p in self.slots]
        return [len(found) * self.size, sum(found, [])]

    def insert(self, ids: list[int], start: int) -> int:
        cached = self.told(ids)[0]
        for prefix in self.prefixes(ids):
            at = start + len(prefix) - self.size
            self.slots.setdefault(prefix, list(range(at, at + self.size)))
        return cached

    def sizes(self) -> list[int]:
        locked = {prefix for ids in self.held for prefix in self.prefixes(ids)}
        return [self.size * (len(self.slots) - len(locked)), self.size * len(locked)]

    def evict(self, gone: list[int]) -> None:
        """Drop these slots; what stays must still start at the root, and be all that is locked."""
        lost = {p for p, slots in self.slots.items() if set(slots) & set(gone)}
        equal(sorted(sum((self.slots.pop(p) for p in lost), [])), sorted(gone), "evicted slots")
        for prefix in self.slots:
            truth(not lost & set(self.prefixes(list(prefix))), "nothing below lost pages", prefix)
        locked = {prefix for ids in self.held for prefix in self.prefixes(ids)}
        truth(not lost & locked, "no locked page is evicted", gone)


def judge_sizes_stay_right_over_random_operations(seed, got):
    for size, log in zip(PAGE_SIZES, got, strict=True):
        model = Model(size)
        for i, ((kind, ids, number), row) in enumerate(zip(steps_of(seed, size), log, strict=True)):
            said, sizes, total = row
            where = f"page size {size}, step {i} ({kind})"
            if kind == "insert":
                cached, start, handle = said
                equal(cached, model.insert(ids, start), f"cached_len at {where}")
                equal(handle, model.told(ids), f"handle at {where}")
            elif kind == "evict":
                truth(len(said) >= min(model.sizes()[0], number % 8), f"tokens at {where}", said)
                model.evict(said)
            elif kind == "unlock" and model.held:
                model.held.pop(number % len(model.held))
            elif kind != "unlock":
                equal(said, model.told(ids), f"match at {where}")
                if kind == "lock":
                    model.held.append(ids[: said[0]])
            equal([sizes, total], [model.sizes(), sum(sizes)], f"sizes after {where}")
