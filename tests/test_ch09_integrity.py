"""Chapter 09: a radix tree that contradicts itself is found out, and a sound one can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pairs import equal, error_of, refused


def ints(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def radix_cache(page_size: int) -> Any:
    from minisgl import core
    from minisgl.kvcache.radix_cache import RadixPrefixCache

    core.set_global_ctx(core.Context(page_size=page_size))
    return RadixPrefixCache(torch.device("cpu"))


class Sound:
    """A sound tree at page size 2; top (4 tokens) has the children left (2) and right (4)."""

    def __init__(self) -> None:
        self.cache = radix_cache(2)
        self.cache.insert_prefix(ints([1, 2, 3, 4, 5, 6]), ints([20, 21, 8, 9, 2, 3]))
        other = self.cache.insert_prefix(ints([1, 2, 3, 4, 7, 8, 9, 9]), ints(range(30, 38)))
        self.held = other.handle
        self.left = self.cache.match_prefix(ints([1, 2, 3, 4, 5, 6])).cuda_handle.node
        self.right, self.top = other.handle.node, other.handle.node.parent

    def problem(self) -> dict[str, str] | None:
        return error_of(self.cache.check_integrity)


def probe_a_sound_tree_passes_locked_or_not(seed):
    sound = Sound()
    found = [sound.problem()]
    sound.cache.lock_handle(sound.held)
    found.append(sound.problem())
    sound.cache.lock_handle(sound.held, unlock=True)
    return [*found, sound.problem(), error_of(radix_cache(4).check_integrity)]


def judge_a_sound_tree_passes_locked_or_not(seed, got):
    equal(got, [None] * 4, "problems of a tree unlocked, locked, and unlocked again; of none")


def count_wrong(sound: Sound) -> None:
    sound.cache.evictable_size -= 2


def lock_by_hand(sound: Sound) -> None:
    sound.right.ref_count = 1


def lock_less_than_none(sound: Sound) -> None:
    sound.left.ref_count = -1


def lose_from_the_order(sound: Sound) -> None:
    del sound.cache.order[sound.left]


def use_the_parent_first(sound: Sound) -> None:
    sound.cache.order.move_to_end(sound.right)


def keep_in_the_order(sound: Sound) -> None:
    del sound.top.children[sound.left.first_page]
    sound.cache.evictable_size -= 2


def turn_the_clock(sound: Sound) -> None:
    sound.right.timestamp = sound.cache.tick + 1


def share_a_slot(sound: Sound) -> None:
    sound.right.value[2:] = ints([20, 21])


def cut_a_page(sound: Sound) -> None:
    sound.left.set_key_value(sound.left.key[:4], sound.left.value[:1])


def mix_a_page(sound: Sound) -> None:
    sound.top.value[:2] = ints([21, 20])


def shift_a_page(sound: Sound) -> None:
    sound.left.value[:] = ints([51, 52])


def lose_a_slot_s_token(sound: Sound) -> None:
    sound.right.key = sound.right.key[:8]


def change_the_first_page(sound: Sound) -> None:
    sound.right.key = bytes(16)


def lose_a_lock_of_two(sound: Sound) -> None:
    sound.cache.lock_handle(sound.held)
    sound.cache.lock_handle(sound.cache.match_prefix(ints([1, 2, 3, 4, 5, 6])).cuda_handle)
    sound.top.ref_count -= 1


FAULTS: dict[Callable[[Sound], None], tuple[str, ...]] = {
    count_wrong: ("10 tokens are evictable and 0 locked", "8 and 0"),
    lock_by_hand: ("[34, 35, 36, 37]", "locked 1 times", "parent 0 times"),
    lock_less_than_none: ("[2, 3]", "locked -1 times"),
    lose_from_the_order: ("[2, 3]", "in the order"),
    use_the_parent_first: ("[34, 35, 36, 37]", "after its parent"),
    keep_in_the_order: ("[2, 3]", "not in the tree"),
    turn_the_clock: ("[34, 35, 36, 37]", "used at tick 4"),
    share_a_slot: ("slot 20", "[20, 21, 8, 9]", "[34, 35, 20, 21]"),
    cut_a_page: ("[2]", "1 tokens", "whole pages"),
    mix_a_page: ("slot 21", "[21, 20, 8, 9]", "page of 2"),
    shift_a_page: ("slot 51", "[51, 52]", "page of 2"),
    lose_a_slot_s_token: ("[34, 35, 36, 37]", "2 tokens", "4 slots"),
    change_the_first_page: ("[34, 35, 36, 37]", "first page"),
    lose_a_lock_of_two: ("[20, 21, 8, 9]", "locked 1 times", "children 2 times"),
}


def probe_each_contradiction_is_named(seed):
    found = []
    for fault in FAULTS:
        sound = Sound()
        fault(sound)
        found.append(sound.problem())
    return found


def judge_each_contradiction_is_named(seed, got):
    for (fault, words), error in zip(FAULTS.items(), got, strict=True):
        refused(error, fault.__name__, "the radix tree is broken", *words, kind="RuntimeError")


def probe_a_node_knows_its_place(seed):
    sound = Sound()
    top, root = sound.top, sound.cache.root_node
    nodes = (root, top, sound.left, sound.right)
    known = [[n.is_root(), n.is_leaf(), n.length, n.value.tolist()] for n in nodes]
    ties = [top.parent is root, sound.left.parent is top]
    ties.append(list(sound.left.path()) == [sound.left, top])
    return [known, ties, error_of(lambda: root.parent), error_of(lambda: top.split_at(4))]


def judge_a_node_knows_its_place(seed, got):
    want = [[True, False, 0, []], [False, False, 4, [20, 21, 8, 9]], [False, True, 2, [2, 3]],
            [False, True, 4, [34, 35, 36, 37]]]  # fmt: skip
    equal(got[0], want, "is_root, is_leaf, length and value of the root, top, left and right")
    equal(got[1], [True] * 3, "parents, and the path up to the root")
    refused(got[2], "the root's parent", "no parent")
    refused(got[3], "a split that leaves nothing", "4 tokens", "at 4")


def probe_locking_is_not_a_use_and_each_unlock_is_one(seed):
    sound = Sound()
    cache, nodes = sound.cache, (sound.top, sound.left, sound.right)

    def seen() -> list[Any]:
        return [cache.tick, [n.timestamp for n in nodes], [nodes.index(n) for n in cache.order]]

    found = [seen()]
    for unlock in (False, False, True, True):
        cache.lock_handle(sound.held, unlock=unlock)
        found.append(seen())
    return found


def judge_locking_is_not_a_use_and_each_unlock_is_one(seed, got):
    want = [[3, [3, 3, 2], [2, 1, 0]], [3, [3, 3, 2], [1]], [3, [3, 3, 2], [1]],
            [4, [4, 3, 4], [1]], [5, [5, 3, 5], [1, 2, 0]]]  # fmt: skip
    equal(got, want, "tick, timestamps of top, left and right, and order: two locks, two unlocks")


def drawn(page_size: int) -> list[str]:
    """A tree with a lock, a split and long nodes, as text and as DOT."""
    from minisgl.kvcache.radix_picture import tree_dot, tree_text

    cache, size = radix_cache(page_size), page_size
    empty = [tree_text(cache), tree_dot(cache)]
    cache.insert_prefix(ints([9, 8] * size), ints(range(40, 40 + 2 * size)))
    cache.insert_prefix(ints(range(8 * size)), ints(range(8 * size)))
    handle = cache.match_prefix(ints(range(2 * size))).cuda_handle
    cache.lock_handle(handle)
    cache.insert_prefix(ints([*range(2 * size), *[77] * size]), ints(range(20, 20 + 3 * size)))
    return [*empty, tree_text(cache), tree_dot(cache)]


def probe_the_tree_can_be_drawn(seed):
    return [drawn(1), drawn(1), drawn(4)]


EMPTY = "0 tokens: 0 evictable, 0 protected"
TEXT = """\
11 tokens: 9 evictable, 2 protected
├─ tokens 0 1 | slots 0 1 | locks 1 | age 0
│  ├─ tokens 2 3 4 5 6 7 | slots 2 3 4 5 6 7 | age 2
│  └─ tokens 77 | slots 22 | age 0
└─ tokens 9 8 | slots 40 41 | age 3"""
EMPTY_DOT = f"""\
digraph radix {{
    node [shape=box];
    n0 [label="{EMPTY}"];
}}"""
DOT = r"""digraph radix {
    node [shape=box];
    n0 [label="11 tokens: 9 evictable, 2 protected"];
    n1 [label="tokens 0 1\nslots 0 1\nlocks 1\nage 0", style=filled, fillcolor=lightgray];
    n0 -> n1;
    n2 [label="tokens 2 3 4 5 6 7\nslots 2 3 4 5 6 7\nage 2"];
    n1 -> n2;
    n3 [label="tokens 77\nslots 22\nage 0"];
    n1 -> n3;
    n4 [label="tokens 9 8\nslots 40 41\nage 3"];
    n0 -> n4;
}"""


def judge_the_tree_can_be_drawn(seed, got):
    equal(got[0], [EMPTY, EMPTY_DOT, TEXT, DOT], "an empty tree and one of four nodes")
    equal(got[1], got[0], "the same operations in another cache give the same pictures")
    line = "│  ├─ tokens 8 9 10 11 12 ... 31 (24) | slots 8 9 10 11 12 ... 31 (24) | age 2"
    equal(got[2][2].split("\n")[2], line, "a long node at page size 4")
    last = "└─ tokens 9 8 9 8 9 ... 8 (8) | slots 40 41 42 43 44 ... 47 (8) | age 3"
    equal(got[2][2].split("\n")[4], last, "the last node at page size 4")


def probe_a_node_and_a_cache_keep_what_they_are_made_with(seed):
    from minisgl.kvcache.radix_cache import RadixTreeNode

    node = RadixTreeNode(2, 7)
    return [node.timestamp, node.ref_count, len(node.children), str(radix_cache(2).device)]


def judge_a_node_and_a_cache_keep_what_they_are_made_with(seed, got):
    equal(got, [7, 0, 0, "cpu"], "a new node's timestamp, locks and children; the cache's device")
