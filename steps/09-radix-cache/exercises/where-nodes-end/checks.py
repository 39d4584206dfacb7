"""Puts drawn sequences into the chapter's radix cache, and compares the predictions with it."""

from __future__ import annotations

from random import Random

import torch

from pairs import Mismatch, equal

SIZES = (1, 2, 4)


def sequence(random, known, page_size):
    """Tokens that begin like one of the known sequences, and go on otherwise or end."""
    base = random.choice(known) if known and random.random() < 0.8 else []
    if len(base) > 1 and random.random() < 0.3:  # one other token, and the rest is the same again
        place = random.randrange(len(base) - 1)
        return [*base[:place], base[place] + 1, *base[place + 1 :]]
    cut = random.randrange(len(base) + 1) if base else 0
    tail = [random.randrange(3) for _ in range(random.randrange(3 * page_size + 2))]
    return (base[:cut] + tail)[: 8 * page_size] or [random.randrange(3)]


def drawn(seed, count, matches):
    """For each page size some operations, and a prompt to look up behind them."""
    random = Random(seed)
    for page_size in SIZES:
        for _ in range(8):
            known = []
            operations = []
            for _ in range(count):
                tokens = sequence(random, known, page_size)
                is_match = matches and known and random.random() < 0.5
                operations.append(["match" if is_match else "insert", tokens])
                known.append(tokens)
            yield page_size, operations, sequence(random, known, page_size)


def cached(page_size, operations):
    """The chapter's cache after these operations."""
    from minisgl.core import Context, set_global_ctx
    from minisgl.kvcache.radix_cache import RadixPrefixCache

    set_global_ctx(Context(page_size))
    cache, free = RadixPrefixCache(torch.device("cpu")), 0
    for kind, tokens in operations:
        ids = torch.tensor(tokens).int()
        if kind == "match":
            cache.match_prefix(ids)
        else:
            cache.insert_prefix(ids, torch.arange(free, free + len(ids)).int())
            free += -(-len(ids) // page_size) * page_size
    cache.check_integrity()
    return cache


def found(cache, tokens):
    return cache.match_prefix(torch.tensor(tokens).int()).cuda_handle


def inserts(operations):
    return [list(tokens) for _, tokens in operations]


def pairs_of(operations):
    return [(kind, list(tokens)) for kind, tokens in operations]


def compared(got, what):
    """The first difference, and what was asked."""
    for case in got:
        predicted, measured = case["predicted"], case["measured"]
        if predicted != measured:
            asked = f"page size {case['page_size']}, {case['asked']}"
            raise Mismatch(f"{what}; {asked}", measured, predicted)
    equal(len(got) > 0, True, "cases")


def cases(seed, count, matches, measure, predict):
    """Measure every case with the real cache, and only then import the answer and ask it."""
    runs = []
    for page_size, operations, prompt in drawn(seed, count, matches):
        cache = cached(page_size, operations)
        runs.append((page_size, operations, prompt, measure(cache, prompt)))
    return [
        {
            "page_size": page_size,
            "asked": f"{shown(operations)}, prompt {shown([['', prompt]])}",
            "measured": measured,
            "predicted": predict(page_size, operations, prompt),
        }
        for page_size, operations, prompt, measured in runs
    ]


def shown(operations):
    """Operations as short text."""
    return ", ".join(f"{kind} {' '.join(map(str, tokens))}".strip() for kind, tokens in operations)


def probe_tokens_that_a_match_finds(seed):
    def predict(page_size, operations, prompt):
        from answer import matched

        return matched(page_size, inserts(operations), list(prompt))

    return cases(seed, 3, False, lambda cache, prompt: found(cache, prompt).cached_len, predict)


def judge_tokens_that_a_match_finds(seed, got):
    for case in got:
        if case["page_size"] == 1 or case["predicted"] % case["page_size"] == 0:
            reason = "a match ends at the first page that differs, whatever comes behind"
        else:
            reason = "a page is shared as a whole or not at all"
        compared([case], f"tokens found ({reason})")


def probe_tokens_that_are_computed(seed):
    runs = []
    for page_size, operations, prompt in drawn(seed + 1, 3, False):
        known = inserts(operations)
        for tokens in (known[0], known[-1] + [1], prompt):
            cache = cached(page_size, operations)
            looked_up = found(cache, tokens[:-1]).cached_len
            runs.append((page_size, operations, tokens, len(tokens) - looked_up))

    from answer import computed

    return [
        {
            "page_size": page_size,
            "asked": f"{shown(operations)}, prompt {shown([['', tokens]])}",
            "measured": measured,
            "predicted": computed(page_size, inserts(operations), list(tokens)),
        }
        for page_size, operations, tokens, measured in runs
    ]


def judge_tokens_that_are_computed(seed, got):
    for case in got:
        reason = "without its last token the prompt's last page isn't whole either"
        if case["predicted"] == 0:
            reason = "the next token is sampled from logits, and the cache keeps K and V alone"
        compared([case], f"tokens computed ({reason})")


def nodes(cache, prompt):
    return sum(1 for _ in cache.nodes()) - 1


def predicted_count(page_size, operations, prompt):
    from answer import count_nodes

    return count_nodes(page_size, pairs_of(operations))


def probe_nodes_after_one_insertion(seed):
    return cases(seed + 2, 1, False, nodes, predicted_count)


def judge_nodes_after_one_insertion(seed, got):
    compared(got, "nodes (a last part that fills no page is left out)")


def probe_nodes_after_insertions(seed):
    return cases(seed + 3, 4, False, nodes, predicted_count)


def judge_nodes_after_insertions(seed, got):
    compared(got, "nodes (where two sequences part, a node ends)")


def probe_nodes_after_insertions_and_matches(seed):
    return cases(seed + 4, 6, True, nodes, predicted_count)


def judge_nodes_after_insertions_and_matches(seed, got):
    for case in got:
        reason = "a match that ends inside a node splits it"
        if case["predicted"] > case["measured"]:
            reason = "a match adds no tokens to the tree"
        compared([case], f"nodes ({reason})")


def probe_the_nodes_of_a_path(seed):
    def measure(cache, prompt):
        return [node.length for node in found(cache, prompt).node.path()][::-1]

    def predict(page_size, operations, prompt):
        from answer import path

        return list(path(page_size, pairs_of(operations), list(prompt)))

    return cases(seed + 5, 6, True, measure, predict)


def judge_the_nodes_of_a_path(seed, got):
    compared(got, "lengths of a path (the match itself may split its last node)")
