"""Plays drawn events on the chapter's radix cache, and compares what it evicts with the answer."""

from __future__ import annotations

from random import Random

import torch

from pairs import Mismatch, equal, truth

NAMES = "pqrstuvwxyz"


def tree(random, count):
    """Names, parents and lengths; each parent before its children."""
    nodes = {}
    for name in NAMES[:count]:
        parent = random.choice(list(nodes)) if nodes and random.random() < 0.7 else None
        nodes[name] = (parent, random.randrange(1, 6))
    return nodes


def story(random, nodes, kinds, count):
    """All insertions, and among and behind them other events on what is there by then."""
    waiting, there, held, events = list(nodes), [], [], []
    while waiting or count > 0:
        kind = random.choice(kinds)
        if waiting and (not there or count <= 0 or random.random() < 0.5):
            there.append(waiting.pop(0))
            events.append(("insert", there[-1]))
            continue
        count -= 1
        name = random.choice(there)
        if kind == "unlock" and held:
            events.append(("unlock", held.pop(random.randrange(len(held)))))
        elif kind == "lock":
            held.append(name)
            events.append(("lock", name))
        else:
            events.append(("match", name))
    return events


def parts(nodes, name):
    """The names from the top down to this node."""
    parent = nodes[name][0]
    return (parts(nodes, parent) if parent else []) + [name]


class Cache:
    """The chapter's cache, in which each node is known by its name."""

    def __init__(self, nodes, events):
        from minisgl.core import Context, set_global_ctx
        from minisgl.kvcache.radix_cache import RadixPrefixCache

        set_global_ctx(Context(1))
        self.nodes, self.real = nodes, RadixPrefixCache(torch.device("cpu"))
        self.handles = {}
        for kind, name in events:
            if kind == "insert":
                tokens = self.tokens(name)
                self.handles[name] = self.real.insert_prefix(tokens, tokens.clone()).handle
            elif kind == "match":
                self.real.match_prefix(self.tokens(name))
            else:
                self.real.lock_handle(self.handles[name], unlock=kind == "unlock")
        self.real.check_integrity()

    def tokens(self, name):
        """A token is ten times the node's number, and its place; the slots are the same."""
        numbers = [
            10 * NAMES.index(part) + i
            for part in parts(self.nodes, name)
            for i in range(self.nodes[part][1])
        ]
        return torch.tensor(numbers).int()

    def evict(self, size):
        """The names of the nodes that go, in order."""
        return list(dict.fromkeys(NAMES[slot // 10] for slot in self.real.evict(size).tolist()))


def asked(nodes, events):
    known = " ".join(f"{name}({parent or 'root'})" for name, (parent, _) in nodes.items())
    return f"nodes {known}; {', '.join(f'{kind} {name}' for kind, name in events)}"


def lengths(nodes):
    return [length for _, length in nodes.values()]


def stories(seed, kinds, count):
    """Trees of their own, each with its events."""
    random = Random(seed)
    for _ in range(12):
        nodes = tree(random, random.randrange(4, 8))
        yield nodes, story(random, nodes, kinds, count)


def orders(told_of):
    """What the cache evicts until nothing is left to evict, and what the answer says."""
    runs = []
    for nodes, told in told_of:
        cache = Cache(nodes, told)
        runs.append((nodes, told, cache.evict(cache.real.evictable_size)))

    from answer import order

    return [
        {"asked": asked(nodes, told), "measured": went, "predicted": order(dict(nodes), list(told))}
        for nodes, told, went in runs
    ]


def compared(got, what):
    for case in got:
        if case["predicted"] != case["measured"]:
            raise Mismatch(f"{what}; {case['asked']}", case["measured"], case["predicted"])
    equal(len(got) > 0, True, "cases")


def probe_what_goes_after_a_match_of_a_part(seed):
    from minisgl.core import Context, set_global_ctx
    from minisgl.kvcache.radix_cache import RadixPrefixCache

    set_global_ctx(Context(1))
    cache = RadixPrefixCache(torch.device("cpu"))
    words = {word: torch.tensor([ord(letter) for letter in word]).int() for word in ("abcd", "k")}
    for word in words.values():
        cache.insert_prefix(word, word.clone())
    cache.match_prefix(words["abcd"][:2])
    right = "".join(map(chr, cache.evict(1).tolist()))

    from answer import GOES

    return {"right": right, "got": GOES}


def judge_what_goes_after_a_match_of_a_part(seed, got):
    reason = "a match makes the part young that it found, and no more"
    if got["got"] == got["right"][-1:]:
        reason = "a leaf goes as a whole"
    truth(got["got"] == got["right"], f"GOES ({reason})", got["got"])


def star(random):
    """A node with several below it, and the insertions."""
    names = NAMES[: random.randrange(3, 6)]
    nodes = {
        name: (names[0] if i else None, random.randrange(1, 6)) for i, name in enumerate(names)
    }
    return nodes, [("insert", name) for name in names]


def probe_one_parent(seed):
    random = Random(seed)
    return orders([star(random) for _ in range(3)])


def judge_one_parent(seed, got):
    for case in got:
        reason = "only a leaf can go, so of one path the deepest node goes first"
        if case["predicted"][:1] == ["p"]:
            reason = "a use of a node is one of all above it"
        compared([case], f"the order of one parent and its children ({reason})")


def probe_the_order_after_insertions(seed):
    return orders(stories(seed, ("match",), 0))


def judge_the_order_after_insertions(seed, got):
    reason = "a node that has nothing below it any more goes by its age, as all leaves do"
    compared(got, f"the order after insertions ({reason})")


def probe_the_order_after_matches(seed):
    return orders(stories(seed + 1, ("match",), 6))


def judge_the_order_after_matches(seed, got):
    compared(got, "the order after matches (each use makes a whole path young)")


def probe_what_a_lock_protects(seed):
    return orders(stories(seed + 2, ("match", "lock"), 3))


def judge_what_a_lock_protects(seed, got):
    for case in got:
        reason = "a lock protects its node and all above it"
        if set(case["predicted"]) < set(case["measured"]):
            reason = "a lock protects nothing below its node"
        compared([case], f"the order with locks ({reason})")


def probe_the_order_after_unlocks(seed):
    return orders(stories(seed + 3, ("lock", "lock", "unlock", "match"), 9))


def judge_the_order_after_unlocks(seed, got):
    for case in got:
        is_same_set = set(case["predicted"]) == set(case["measured"])
        reason = "an unlock is a use" if is_same_set else "two locks need two unlocks"
        compared([case], f"the order after unlocks ({reason})")


def probe_what_an_eviction_drops(seed):
    random, runs = Random(seed + 4), []
    for i in range(16):
        nodes = tree(random, random.randrange(4, 8))
        told = story(random, nodes, ("match", "lock"), 2)
        cache = Cache(nodes, told)
        most = cache.real.evictable_size
        size = most + 1 + i if i % 4 == 3 else random.randrange(most + 1)
        runs.append((nodes, told, size, [] if size > most else cache.evict(size)))

    from answer import dropped

    return [
        {
            "asked": f"{asked(nodes, told)}; lengths {lengths(nodes)}, evict {size}",
            "measured": went,
            "predicted": dropped(dict(nodes), list(told), size),
        }
        for nodes, told, size, went in runs
    ]


def judge_what_an_eviction_drops(seed, got):
    for case in got:
        reason = "nodes go as a whole, until at least so many tokens are gone"
        if not case["measured"] and case["predicted"]:
            reason = "where too little can go, nothing goes"
        compared([case], f"what is dropped ({reason})")
