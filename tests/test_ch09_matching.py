"""Chapter 09: what was inserted in the radix tree is found again, in whole pages."""

from __future__ import annotations

from typing import Any

import torch

from pairs import equal, error_of, public_bug, refused, truth

PAGE_SIZES = (1, 2, 4)


def tokens(pages: str, size: int) -> list[int]:
    """Each letter stands for a page of its own token ids, which are above 65,536."""
    return [100_000 + 10 * ord(page) + i for page in pages for i in range(size)]


def slots(pages: list[int], size: int) -> list[int]:
    """The slots of the pages with these numbers."""
    return [page * size + i for page in pages for i in range(size)]


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


class Tree:
    """A radix cache that is spoken to in letters and in numbers of pages."""

    def __init__(self, size: int = 1) -> None:
        from minisgl import core
        from minisgl.kvcache.radix_cache import RadixPrefixCache

        core.set_global_ctx(core.Context(page_size=size))
        self.cache, self.size = RadixPrefixCache(torch.device("cpu")), size

    def insert(self, pages: str, numbers: list[int]) -> Any:
        ids, indices = ints(tokens(pages, self.size)), ints(slots(numbers, self.size))
        return self.cache.insert_prefix(ids, indices)

    def match(self, pages: str) -> Any:
        return self.cache.match_prefix(ints(tokens(pages, self.size))).cuda_handle

    def lock(self, handle: Any) -> None:
        self.cache.lock_handle(handle)

    def unlock(self, handle: Any) -> None:
        self.cache.lock_handle(handle, unlock=True)

    def evict(self, pages: int) -> list[int]:
        return self.cache.evict(pages * self.size).tolist()

    @property
    def sizes(self) -> list[int]:
        """Evictable and protected pages."""
        return [tokens // self.size for tokens in self.cache.size_info]


def told(handle: Any) -> list[Any]:
    """A handle's length and slots."""
    return [handle.cached_len, handle.get_matched_indices().tolist()]


def probe_the_longest_cached_prefix_is_matched(seed):
    found = []
    for size in PAGE_SIZES:
        tree = Tree(size)
        tree.insert("abc", [7, 3, 5])
        tree.insert("xy", [1, 2])
        found.append([told(tree.match(asked)) for asked in ("abc", "abcd", "ab", "xyz", "bc", "")])
        tree.cache.check_integrity()
    return found


def judge_the_longest_cached_prefix_is_matched(seed, got):
    want = [[7, 3, 5], [7, 3, 5], [7, 3], [1, 2], [], []]
    for size, found in zip(PAGE_SIZES, got, strict=True):
        told = [[len(pages) * size, slots(pages, size)] for pages in want]
        equal(found, told, f"length and slots of each match at page size {size}")


def probe_an_insert_takes_only_what_wasnt_cached(seed):
    found = []
    for size in PAGE_SIZES:
        tree, rows = Tree(size), []
        for pages, numbers in (
            ("ab", [1, 2]), ("abcd", [3, 4, 5, 6]), ("abcd", [7, 8, 9, 10]), ("a", [11]),
            ("abxy", [12, 13, 14, 15]), ("b", [16]),
        ):  # fmt: skip
            result = tree.insert(pages, numbers)
            rows.append([result.cached_len, *told(result.handle), tree.sizes])
            tree.cache.check_integrity()
        found.append([rows, sorted(tree.cache.all_indices().tolist())])
    return found


def judge_an_insert_takes_only_what_wasnt_cached(seed, got):
    want = [
        (0, [1, 2], 2), (2, [1, 2, 5, 6], 4), (4, [1, 2, 5, 6], 4), (1, [1], 4),
        (2, [1, 2, 14, 15], 6), (0, [16], 7),
    ]  # fmt: skip
    for size, (rows, held) in zip(PAGE_SIZES, got, strict=True):
        for i, (row, (cached, now, total)) in enumerate(zip(rows, want, strict=True)):
            told = [cached * size, len(now) * size, slots(now, size), [total, 0]]
            equal(row, told, f"page size {size}, insert {i}: cached_len, handle and sizes")
        equal(held, slots([1, 2, 5, 6, 14, 15, 16], size), f"all slots at page size {size}")


@public_bug("B39")
def probe_the_tree_keeps_the_slots_when_the_row_is_reused(seed):
    tree, row = Tree(), torch.arange(8, 24, dtype=torch.int32)
    handle = tree.cache.insert_prefix(ints([1, 2, 3, 4]), row[2:6]).handle
    row.fill_(-5)
    found = [told(handle), told(tree.cache.match_prefix(ints([1, 2, 3, 4])).cuda_handle)]
    again = handle.get_matched_indices()
    again.fill_(-7)
    return [found, told(handle), sorted(tree.evict(1))]


def judge_the_tree_keeps_the_slots_when_the_row_is_reused(seed, got):
    kept = [4, [10, 11, 12, 13]]
    equal(got[0], [kept] * 2, "length and slots after the row was overwritten")
    equal(got[1:], [kept, kept[1]], "slots after a caller wrote to its answer, and when evicted")


@public_bug("B42")
def probe_only_whole_pages_are_stored_and_matched(seed):
    tree = Tree(4)
    result = tree.cache.insert_prefix(ints(list(range(6))), ints(list(range(8, 14))))
    stored = [result.cached_len, told(result.handle), list(tree.cache.size_info)]
    short = tree.cache.insert_prefix(ints([1, 2, 3]), ints([20, 21, 22]))
    asked = [list(range(3)), list(range(4)), list(range(6)), list(range(9)), [5, 6, 7], []]
    found = [told(tree.cache.match_prefix(ints(ids)).cuda_handle) for ids in asked]
    empty = tree.cache.match_prefix(ints([0, 1, 2])).cuda_handle
    tree.lock(empty)
    tree.unlock(empty)
    tree.cache.check_integrity()
    return [stored, [short.cached_len, told(short.handle)], found, list(tree.cache.size_info)]


def judge_only_whole_pages_are_stored_and_matched(seed, got):
    stored, short, found, sizes = got
    page, nothing = [4, [8, 9, 10, 11]], [0, []]
    equal(stored, [0, page, [4, 0]], "6 tokens inserted at page size 4")
    equal(short, [0, nothing], "3 tokens inserted at page size 4")
    equal(found, [nothing, page, page, page, nothing, nothing], "matches of 3, 4, 6, 9, 3, 0 ids")
    equal(sizes, [4, 0], "sizes after all that")


def probe_a_difference_inside_a_page_ends_the_match_at_its_start(seed):
    found = []
    for at in range(12):
        tree = Tree(4)
        tree.cache.insert_prefix(ints(list(range(12))), ints(list(range(12))))
        other = [*range(at), *range(50, 62 - at)]
        result = tree.cache.insert_prefix(ints(other), ints(list(range(100, 112))))
        tree.cache.check_integrity()
        old = told(tree.cache.match_prefix(ints(list(range(12)))).cuda_handle)
        found.append([result.cached_len, told(result.handle), old, tree.cache.size_info.total_size])
    return found


def judge_a_difference_inside_a_page_ends_the_match_at_its_start(seed, got):
    for at, found in enumerate(got):
        same = at // 4 * 4
        now = [12, [*range(same), *range(100 + same, 112)]]
        want = [same, now, [12, list(range(12))], 24 - same]
        equal(found, want, f"12 ids that differ from id {at} on, at page size 4")


def probe_a_handle_stays_valid_when_its_node_is_split(seed):
    found = []
    for size in PAGE_SIZES:
        tree = Tree(size)
        long = tree.insert("abcdef", [1, 2, 3, 4, 5, 6]).handle
        parts = [tree.insert("abcdxy", [7, 8, 9, 10, 11, 12]).handle, tree.match("ab")]
        parts.append(tree.match("abc"))
        before = [told(handle) for handle in (long, *parts)]
        tree.lock(long)
        sizes = [tree.sizes]
        tree.cache.check_integrity()
        tree.unlock(long)
        found.append([before, [*sizes, tree.sizes]])
    return found


def judge_a_handle_stays_valid_when_its_node_is_split(seed, got):
    want = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 11, 12], [1, 2], [1, 2, 3]]
    for size, (before, sizes) in zip(PAGE_SIZES, got, strict=True):
        told = [[len(pages) * size, slots(pages, size)] for pages in want]
        equal(before, told, f"length and slots of four handles at page size {size}")
        equal(sizes, [[2, 6], [8, 0]], "sizes with the first one locked, and unlocked")


def bytes_behind(handle: Any) -> int:
    """Bytes of the memory in which the slots of the handle's own node lie."""
    return handle.node.value.untyped_storage().nbytes()


@public_bug("B46")
def probe_no_part_keeps_the_memory_of_the_whole(seed):
    row, found = torch.arange(10_000, dtype=torch.int32), []
    for cut in (1, 5_000, 8_999):
        tree = Tree()
        whole = tree.cache.insert_prefix(row[:9_000], row[:9_000]).handle
        behind = [bytes_behind(whole)]
        first = tree.cache.match_prefix(row[:cut]).cuda_handle
        behind += [bytes_behind(first), bytes_behind(whole)]
        evicted = len(tree.cache.evict(1))
        longer = tree.cache.insert_prefix(row[: cut + 4], row[: cut + 4]).handle
        found.append([[*behind, bytes_behind(longer)], evicted, told(longer)])
    return found


def judge_no_part_keeps_the_memory_of_the_whole(seed, got):
    for cut, (behind, evicted, longer) in zip((1, 5_000, 8_999), got, strict=True):
        for found, length in zip(behind, (9_000, cut, 9_000 - cut, 4), strict=True):
            truth(4 * length <= found <= 4 * length + 64, f"bytes behind {length} slots", found)
        equal(evicted, 9_000 - cut, f"slots evicted after a split at {cut}")
        equal(longer, [cut + 4, list(range(cut + 4))], f"inserted again after a split at {cut}")


def probe_ids_may_be_32_or_64_bits_wide_and_any_view(seed):
    tree = Tree(2)
    wide = torch.tensor([151_935, 0, 70_000, 256, 65_536, 1])
    tree.cache.insert_prefix(wide, ints([4, 5, 0, 1, 2, 3]))
    strided = torch.stack([wide, wide + 1], dim=1).to(torch.int32)[:, 0]
    asked = (wide, wide.to(torch.int32), strided, wide.flip(0), wide + 65_536)
    return [told(tree.cache.match_prefix(ids).cuda_handle) for ids in asked]


def judge_ids_may_be_32_or_64_bits_wide_and_any_view(seed, got):
    equal(got, [[6, [4, 5, 0, 1, 2, 3]]] * 3 + [[0, []]] * 2,
          "matches of int64, int32 and strided ids, and of other ids")  # fmt: skip


def probe_nothing_cached_is_an_empty_int32_tensor(seed):
    tree = Tree(2)
    handles = [tree.match("ab"), tree.cache.insert_prefix(ints([]), ints([])).handle]
    tree.insert("ab", [0, 1])
    handles.append(tree.match("b"))
    empty = [handle.get_matched_indices() for handle in handles]
    fresh = Tree().cache.all_indices()
    return [[list(x.shape), str(x.dtype), str(x.device)] for x in (*empty, fresh)]


def judge_nothing_cached_is_an_empty_int32_tensor(seed, got):
    equal(got, [[[0], "torch.int32", "cpu"]] * 4, "shape, dtype and device of no slots")


def probe_slots_that_dont_fit_the_tokens_are_refused(seed):
    tree = Tree()
    error = error_of(lambda: tree.cache.insert_prefix(ints([1, 2, 3]), ints([1, 2])))
    return [error, tree.sizes]


def judge_slots_that_dont_fit_the_tokens_are_refused(seed, got):
    refused(got[0], "3 tokens with 2 slots", "3 tokens", "2 slots")
    equal(got[1], [0, 0], "sizes after the refusal")


def probe_the_radix_cache_is_made_by_name(seed):
    from minisgl import core
    from minisgl.kvcache import create_prefix_cache

    core.set_global_ctx(core.Context(page_size=8))
    cache = create_prefix_cache(torch.device("cpu"), "radix")
    cache.insert_prefix(ints(list(range(17))), ints(list(range(17))))
    return [type(cache).__name__, list(cache.size_info)]


def judge_the_radix_cache_is_made_by_name(seed, got):
    equal(got, ["RadixPrefixCache", [16, 0]], "its class, and sizes after 17 tokens at page size 8")


def probe_a_chain_of_thousands_of_nodes_is_no_trouble(seed):
    tree, ids = Tree(), torch.arange(3000, dtype=torch.int32)
    for end in range(1, 3001):
        tree.cache.insert_prefix(ids[:end], ids[:end])
    handle = tree.cache.match_prefix(ids).cuda_handle
    tree.lock(handle)
    locked = tree.sizes
    tree.unlock(handle)
    tree.cache.check_integrity()
    return [told(handle), locked, tree.cache.all_indices().tolist(), tree.evict(2500)]


def judge_a_chain_of_thousands_of_nodes_is_no_trouble(seed, got):
    handle, locked, held, evicted = got
    equal(handle, [3000, list(range(3000))], "length and slots of the whole")
    equal([locked, sorted(held)], [[0, 3000], list(range(3000))], "sizes when locked; all slots")
    equal(evicted, list(range(2999, 499, -1)), "evicted slots, the deepest first")
