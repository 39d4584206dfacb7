"""Chapter 09: what is locked stays, and of the rest the longest unused goes first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from pairs import equal, error_of, public_bug, refused, truth

PAGE_SIZES = (1, 2, 4)


def slots(pages: list[int], size: int) -> list[int]:
    """The slots of the pages with these numbers."""
    return [page * size + i for page in pages for i in range(size)]


class Tree:
    """A radix cache that is spoken to in letters, one a page, and in numbers of pages."""

    def __init__(self, size: int = 1) -> None:
        from minisgl import core
        from minisgl.kvcache.radix_cache import RadixPrefixCache

        core.set_global_ctx(core.Context(page_size=size))
        self.cache, self.size = RadixPrefixCache(torch.device("cpu")), size

    def ids(self, pages: str) -> torch.Tensor:
        ids = [10 * ord(page) + i for page in pages for i in range(self.size)]
        return torch.tensor(ids, dtype=torch.int32)

    def insert(self, pages: str, numbers: list[int]) -> Any:
        """Returns the handle; checks the tree."""
        indices = torch.tensor(slots(numbers, self.size), dtype=torch.int32)
        handle = self.cache.insert_prefix(self.ids(pages), indices).handle
        self.cache.check_integrity()
        return handle

    def match(self, pages: str) -> Any:
        handle = self.cache.match_prefix(self.ids(pages)).cuda_handle
        self.cache.check_integrity()
        return handle

    def lock(self, handle: Any) -> list[int]:
        self.cache.lock_handle(handle)
        self.cache.check_integrity()
        return self.sizes

    def unlock(self, handle: Any) -> list[int]:
        self.cache.lock_handle(handle, unlock=True)
        self.cache.check_integrity()
        return self.sizes

    def evict(self, pages: int) -> list[int]:
        """Returns the numbers of the pages, which must come whole."""
        gone = self.cache.evict(pages * self.size).tolist()
        self.cache.check_integrity()
        numbers = [slot // self.size for slot in gone[:: self.size]]
        assert gone == slots(numbers, self.size), f"{gone} aren't whole pages"
        return numbers

    def drain(self) -> list[list[int]]:
        """Evict a page at least, again and again; what went each time."""
        gone = []
        while self.sizes[0]:
            gone.append(self.evict(1))
        return gone

    @property
    def sizes(self) -> list[int]:
        """Evictable and protected pages."""
        return [tokens // self.size for tokens in self.cache.size_info]


def at_each_page_size(story: Callable[[Tree], Any]) -> list[Any]:
    return [story(Tree(size)) for size in PAGE_SIZES]


def same_each_time(got: list[Any], want: Any, what: str) -> None:
    for size, found in zip(PAGE_SIZES, got, strict=True):
        equal(found, want, f"{what}, at page size {size}")


@public_bug("B36")
def probe_a_match_locks_what_it_matched(seed):
    def story(tree: Tree) -> Any:
        tree.insert("abc", [1, 2, 3])
        handle = tree.match("abc")
        sizes = tree.lock(handle)
        error = error_of(lambda: tree.evict(1))
        return [sizes, error, handle.get_matched_indices().tolist(), tree.unlock(handle)]

    return at_each_page_size(story)


def judge_a_match_locks_what_it_matched(seed, got):
    for size, (locked, error, held, unlocked) in zip(PAGE_SIZES, got, strict=True):
        equal([locked, unlocked], [[0, 3], [3, 0]], f"sizes locked, unlocked; page size {size}")
        refused(error, f"evicting {size} locked tokens", "only 0", kind="RuntimeError")
        equal(held, slots([1, 2, 3], size), f"slots of the handle at page size {size}")


@public_bug("B37")
def probe_a_lock_holds_the_node_itself_and_all_above_it(seed):
    def story(tree: Tree) -> Any:
        tree.insert("ab", [1, 2])
        tree.insert("abcd", [3, 4, 5, 6])
        tree.insert("abxy", [3, 4, 7, 8])
        handle = tree.match("abcd")
        sizes = [tree.lock(handle)]
        gone = tree.drain()
        refusal = error_of(lambda: tree.evict(2))
        return [*sizes, gone, refusal, tree.unlock(handle), tree.drain()]

    return at_each_page_size(story)


def judge_a_lock_holds_the_node_itself_and_all_above_it(seed, got):
    for size, (locked, gone, refusal, unlocked, rest) in zip(PAGE_SIZES, got, strict=True):
        equal([locked, gone], [[2, 4], [[7, 8]]], f"sizes, and evicted beside; page size {size}")
        refused(refusal, "evicting locked tokens", "only 0", kind="RuntimeError")
        equal([unlocked, rest], [[4, 0], [[5, 6], [1, 2]]], f"after unlock at page size {size}")


@public_bug("B38")
def probe_as_many_unlocks_as_locks_and_no_more(seed):
    def story(tree: Tree) -> Any:
        tree.insert("ab", [1, 2])
        deep, short = tree.insert("abcd", [3, 4, 5, 6]), tree.match("ab")
        sizes = [tree.lock(deep), tree.lock(deep), tree.lock(short)]
        sizes += [tree.unlock(deep), tree.unlock(deep)]
        early = error_of(lambda: tree.unlock(deep))
        sizes += [tree.sizes, tree.unlock(short)]
        return [sizes, early, error_of(lambda: tree.unlock(short)), tree.sizes, tree.drain()]

    return at_each_page_size(story)


def judge_as_many_unlocks_as_locks_and_no_more(seed, got):
    for size, (sizes, early, late, after, gone) in zip(PAGE_SIZES, got, strict=True):
        want = [[0, 4], [0, 4], [0, 4], [0, 4], [2, 2], [2, 2], [4, 0]]
        equal(sizes, want, f"sizes after each lock and unlock at page size {size}")
        refused(early, "one unlock too many below a lock", "isn't locked", kind="RuntimeError")
        refused(late, "one unlock too many", "isn't locked", kind="RuntimeError")
        equal([after, gone], [[4, 0], [[5, 6], [1, 2]]], f"what is left at page size {size}")


@public_bug("B41")
def probe_a_match_in_part_refreshes_that_part_alone(seed):
    def story(tree: Tree) -> Any:
        tree.insert("abcd", [10, 11, 12, 13])
        tree.insert("xy", [20, 21])
        tree.match("ab")
        return [tree.evict(2), tree.sizes, tree.drain()]

    return at_each_page_size(story)


def judge_a_match_in_part_refreshes_that_part_alone(seed, got):
    want = [[12, 13], [4, 0], [[20, 21], [10, 11]]]
    same_each_time(got, want, "evicted first, sizes then, and evicted afterwards")


def probe_a_split_below_an_insert_keeps_its_place(seed):
    def story(tree: Tree) -> Any:
        tree.insert("m", [9])
        tree.insert("abcd", [1, 2, 3, 4])
        tree.insert("n", [8])
        tree.insert("abx", [5, 6, 7])
        tree.match("n")
        return tree.drain()

    return at_each_page_size(story)


def judge_a_split_below_an_insert_keeps_its_place(seed, got):
    same_each_time(got, [[9], [3, 4], [7], [1, 2], [8]], "evicted, the longest unused first")


def probe_the_longest_unused_goes_first(seed):
    def story(tree: Tree) -> Any:
        first = tree.insert("a", [1])
        for number, page in enumerate("bcde", 2):
            tree.insert(page, [number])
        tree.lock(first)
        tree.match("c")
        tree.insert("b", [9])
        tree.match("q")
        tree.unlock(first)
        tree.match("d")
        return tree.drain()

    return at_each_page_size(story)


def judge_the_longest_unused_goes_first(seed, got):
    same_each_time(got, [[5], [3], [2], [1], [4]], "evicted after a match, an insert, an unlock")


def probe_only_the_last_unlock_counts_as_a_use(seed):
    def story(tree: Tree) -> Any:
        handle = tree.insert("a", [1])
        tree.lock(handle)
        tree.lock(handle)
        tree.unlock(handle)
        tree.insert("b", [2])
        tree.unlock(handle)
        tree.insert("c", [3])
        return tree.drain()

    return at_each_page_size(story)


def judge_only_the_last_unlock_counts_as_a_use(seed, got):
    same_each_time(got, [[2], [1], [3]], "evicted; the first one was unlocked after the second")


def probe_what_lies_deepest_goes_before_its_parent(seed):
    def story(tree: Tree) -> Any:
        tree.insert("abcd", [1, 2, 3, 4])
        tree.insert("abxy", [1, 2, 5, 6])
        tree.insert("abxyz", [1, 2, 5, 6, 7])
        tree.insert("k", [8])
        handle = tree.match("abcd")
        tree.lock(handle)
        tree.match("k")
        tree.unlock(handle)
        return tree.drain()

    return at_each_page_size(story)


def judge_what_lies_deepest_goes_before_its_parent(seed, got):
    same_each_time(got, [[7], [5, 6], [8], [3, 4], [1, 2]], "evicted, page by page")


def probe_an_eviction_takes_whole_leaves_and_enough_of_them(seed):
    def story(tree: Tree) -> Any:
        tree.insert("abc", [1, 2, 3])
        tree.insert("de", [4, 5])
        tree.insert("f", [6])
        steps = [tree.evict(0), tree.evict(1), tree.evict(3), tree.sizes]
        return [*steps, tree.match("abc").cached_len, tree.evict(0)]

    return [*at_each_page_size(story), str(Tree().cache.evict(0).dtype)]


def judge_an_eviction_takes_whole_leaves_and_enough_of_them(seed, got):
    same_each_time(got[:3], [[], [1, 2, 3], [4, 5, 6], [0, 0], 0, []],
                   "evictions of 0, 1 and 3 pages, sizes, a match, and 0 pages more")  # fmt: skip
    equal(got[3], "torch.int32", "dtype of no slots")


def probe_an_eviction_of_too_much_drops_nothing(seed):
    def story(tree: Tree) -> Any:
        tree.insert("abc", [1, 2, 3])
        tree.lock(tree.insert("de", [4, 5]))
        error = error_of(lambda: tree.evict(4))
        return [error, tree.sizes, tree.match("abc").cached_len // tree.size, tree.evict(3)]

    return at_each_page_size(story)


def judge_an_eviction_of_too_much_drops_nothing(seed, got):
    for size, (error, *rest) in zip(PAGE_SIZES, got, strict=True):
        words = (f"{4 * size} tokens to evict", f"only {3 * size}")
        refused(error, "an eviction of 4 pages of 3", *words, kind="RuntimeError")
        equal(rest, [[3, 2], 3, [1, 2, 3]], f"what was still there at page size {size}")


def probe_a_split_under_locks_leaves_them_on_both_parts(seed):
    def story(tree: Tree) -> Any:
        whole = tree.insert("abcd", [1, 2, 3, 4])
        sizes = [tree.lock(whole), tree.lock(whole)]
        tree.insert("abxy", [1, 2, 5, 6])
        sizes.append(tree.sizes)
        short = tree.match("a")
        sizes += [tree.sizes, tree.lock(short), tree.unlock(whole), tree.unlock(whole)]
        gone = tree.drain()
        return [sizes, gone, whole.get_matched_indices().tolist()[: tree.size],
                tree.unlock(short), tree.drain()]  # fmt: skip

    return at_each_page_size(story)


def judge_a_split_under_locks_leaves_them_on_both_parts(seed, got):
    want = [[0, 4], [0, 4], [2, 4], [2, 4], [2, 4], [2, 4], [5, 1]]
    for size, (sizes, gone, first, unlocked, rest) in zip(PAGE_SIZES, got, strict=True):
        equal(sizes, want, f"sizes through two locks, two splits, unlocks; page size {size}")
        equal(gone, [[5, 6], [3, 4], [2]], f"evicted below the last lock at page size {size}")
        equal(first, slots([1], size), f"first slots of the long handle at page size {size}")
        equal([unlocked, rest], [[1, 0], [[1]]], f"after the last unlock at page size {size}")


def probe_a_match_may_be_evicted_before_it_is_locked(seed):
    def story(tree: Tree) -> Any:
        tree.insert("ab", [1, 2])
        tree.insert("abcd", [1, 2, 3, 4])
        stale = tree.match("abcd")
        gone = tree.evict(1)
        refusal = error_of(lambda: tree.lock(stale))
        again = tree.cache.insert_prefix(
            tree.ids("abcd"), torch.tensor(slots([5, 6, 7, 8], tree.size), dtype=torch.int32)
        )
        found = [again.cached_len // tree.size, again.handle.get_matched_indices().tolist()]
        return [gone, refusal, found, error_of(lambda: tree.lock(stale)), tree.sizes, tree.drain()]

    return at_each_page_size(story)


def judge_a_match_may_be_evicted_before_it_is_locked(seed, got):
    for size, (gone, early, found, late, sizes, rest) in zip(PAGE_SIZES, got, strict=True):
        equal(gone, [3, 4], f"evicted at page size {size}")
        refused(early, "a lock on what was evicted", "match again", kind="RuntimeError")
        refused(late, "a lock on what was evicted and inserted anew", "match again")
        equal(found, [2, slots([1, 2, 7, 8], size)], f"the new insert at page size {size}")
        equal([sizes, rest], [[4, 0], [[7, 8], [1, 2]]], f"at the end, at page size {size}")


def probe_a_reset_forgets_all_unless_something_is_locked(seed):
    def story(tree: Tree) -> Any:
        handle = tree.insert("abcd", [1, 2, 3, 4])
        tree.insert("abx", [1, 2, 5])
        tree.lock(handle)
        error = error_of(tree.cache.reset)
        kept = [tree.sizes, tree.match("abcd").cached_len // tree.size]
        tree.unlock(handle)
        tree.cache.reset()
        left = [tree.sizes, tree.match("abcd").cached_len, tree.cache.all_indices().tolist()]
        stale = error_of(lambda: tree.lock(handle))
        tree.insert("abcd", [6, 7, 8, 9])
        gone = tree.drain()
        tree.lock(tree.insert("a", [1]))
        return [error, kept, left, stale, gone, error_of(tree.cache.reset)]

    return at_each_page_size(story)


def judge_a_reset_forgets_all_unless_something_is_locked(seed, got):
    for size, (error, kept, left, stale, gone, one) in zip(PAGE_SIZES, got, strict=True):
        refused(one, "a reset under a lock on one page", f"{size} tokens are locked")
        refused(error, "a reset under a lock", f"{4 * size} tokens are locked", kind="RuntimeError")
        equal([kept, left], [[[1, 4], 4], [[0, 0], 0, []]], "what is kept, and what is left")
        refused(stale, "a lock on what was reset", "match again")
        equal(gone, [[6, 7, 8, 9]], f"evicted after a new insert at page size {size}")


def lines_run(action: Callable[..., object], *args: object, **settings: object) -> int:
    """How many lines of Python the call runs, a loop's as often as they are run."""
    count, before = 0, sys.gettrace()

    def trace(frame: Any, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        action(*args, **settings)
    finally:
        sys.settrace(before)
    return count


def work_in_a_tree_of(nodes: int) -> list[int]:
    """Lines run by a match, an insert, a lock, an unlock, and evictions of 2, 20 and 40 slots."""
    tree, indices = Tree(2), torch.arange(6, dtype=torch.int32)
    for number in range(nodes):
        tree.cache.insert_prefix(tree.ids("ab" + chr(256 + number)), indices)
    cache, ids = tree.cache, tree.ids("abz")
    handle = cache.match_prefix(tree.ids("ab" + chr(256))).cuda_handle
    return [
        lines_run(cache.match_prefix, ids),
        lines_run(cache.insert_prefix, ids, indices),
        lines_run(cache.lock_handle, handle),
        lines_run(cache.lock_handle, handle, unlock=True),
        *(lines_run(cache.evict, size) for size in (2, 20, 40)),
    ]


def probe_the_work_doesnt_grow_with_the_tree(seed):
    return [work_in_a_tree_of(100), work_in_a_tree_of(3000)]


def judge_the_work_doesnt_grow_with_the_tree(seed, got):
    small, large = got
    equal(large, small, "lines run in a tree of 3,000 nodes, and in one of 100")
    one, ten, twenty = small[4:]
    truth(0 < one < ten < twenty < 3 * ten, "an eviction's lines grow with what it drops", small)
