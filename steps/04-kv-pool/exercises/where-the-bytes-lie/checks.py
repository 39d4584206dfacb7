"""Stores keys and values in real pools and finds the bytes that changed."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import torch

from pairs import equal

DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
KINDS = ("k", "v")


def drawn(random, layers=None):
    """A pool whose sizes all differ from each other."""
    kv = random.choice((2, 3))
    return {
        "layers": layers or random.choice((4, 5)),
        "query_heads": kv * random.choice((2, 3)),
        "kv_heads": kv,
        "head_dim": random.choice((8, 16)),
        "itemsize": random.choice(list(DTYPES)),
        "page_size": random.choice((4, 6, 8)),
        "num_pages": random.randrange(12, 16),
    }


def made(pool, num_pages):
    """The book's pool of these sizes, and its memory as bytes, all 0."""
    from minisgl.kvcache import create_kvcache_pool

    model = SimpleNamespace(
        num_layers=pool["layers"], num_kv_heads=pool["kv_heads"], head_dim=pool["head_dim"]
    )
    dtype, device = DTYPES[pool["itemsize"]], torch.device("cpu")
    cache = create_kvcache_pool(model, num_pages, pool["page_size"], dtype, device)
    memory = torch.empty(0, dtype=torch.uint8).set_(cache.k_cache(0).untyped_storage())
    return cache, memory.zero_()


def pages_taken(page_size, lengths):
    """Pages that are gone when requests have grown to these lengths, token by token."""
    taken, room = 0, [0] * len(lengths)
    for position in range(max(lengths)):
        for i, length in enumerate(lengths):
            if position < length and room[i] == 0:
                taken, room[i] = taken + 1, page_size
            room[i] -= position < length
    return taken


def changed(pool, pages, cached, total):
    """For K and for V, the pieces of memory that change when a pass stores its tokens."""
    cache, memory = made(pool, pool["num_pages"])
    size = pool["page_size"]
    table = torch.cat([torch.arange(page * size, (page + 1) * size) for page in pages])
    shape = (total - cached, pool["kv_heads"], pool["head_dim"] * pool["itemsize"])
    k, v = (torch.full(shape, mark, dtype=torch.uint8).view(cache.dtype) for mark in (1, 2))
    for layer in range(pool["layers"]):
        cache.store_kv(k, v, table[cached:total], layer)
    return {kind: pieces(memory == mark) for mark, kind in enumerate(KINDS, start=1)}


def pieces(is_written):
    """The runs of a mask as pairs (first, how many)."""
    edges = torch.cat([torch.zeros(1), is_written.int(), torch.zeros(1)]).diff().nonzero()
    return [(first, end - first) for first, end in edges.view(-1, 2).tolist()]


def sizes(seed, lengths_of):
    """Two pools, and the lengths that lengths_of draws for them: bytes measured and predicted."""
    random, cases = Random(seed), []
    for _ in range(2):
        pool = drawn(random)
        del pool["num_pages"]
        lengths = lengths_of(random, pool["page_size"])
        _, memory = made(pool, pages_taken(pool["page_size"], lengths))
        cases.append((pool, lengths, len(memory)))

    from answer import smallest

    return [
        {
            "call": f"smallest({pool}, {lengths})",
            "measured": measured,
            "predicted": smallest(dict(pool), list(lengths)),
        }
        for pool, lengths, measured in cases
    ]


def places(seed, request_of, layers=None):
    """Two pools with a request that request_of draws: its pieces, measured and predicted."""
    random, cases = Random(seed), []
    for _ in range(2):
        pool = drawn(random, layers)
        request = request_of(random, pool["page_size"])
        found = changed(pool, *request)
        cases += [(pool, kind, *request, found[kind]) for kind in KINDS]

    from answer import written

    return [
        {
            "call": f"written({pool}, {kind!r}, {pages}, {cached}, {total})",
            "measured": measured,
            "predicted": written(dict(pool), kind, list(pages), cached, total),
        }
        for pool, kind, pages, cached, total, measured in cases
    ]


def one_token(random, size):
    """A request of one token, not in the first page nor at its beginning."""
    page = random.randrange(2, 10)
    place = random.randrange(1, size)
    return [page], place, place + 1


def prompt(random, size):
    """A request without a prefix. The last page isn't full, and not the last one in memory."""
    pages = random.sample(range(1, 12, 2), 3)
    pages.insert(random.randrange(2), pages.pop(pages.index(max(pages))))
    return pages, 0, 2 * size + random.randrange(1, size)


def rest(random, size):
    """Some tokens behind a prefix."""
    cached = random.randrange(size + 1, 2 * size)
    return random.sample(range(1, 12, 2), 3), cached, random.randrange(cached + 1, 3 * size)


def neighbors(random, size):
    """A prompt whose first two pages lie side by side in memory, in either order."""
    first = random.randrange(1, 5)
    pages = [[first, first + 1], [first + 1, first]][random.randrange(2)]
    return [*pages, first + 4], 0, 2 * size + random.randrange(1, size)


def judged(got, why, aspect=lambda answer: answer):
    """Compare an aspect of what was predicted and what was measured; why says what is the case."""
    for case in got:
        predicted, measured = aspect(case["predicted"]), aspect(case["measured"])
        equal(predicted, measured, f"{why}, for {case['call']}")


def amount(pieces):
    return sum(length for _, length in pieces)


def told(pieces):
    return [f"{length} bytes at {first}" for first, length in pieces]


def probe_bytes_for_one_request(seed):
    return sizes(seed, lambda random, size: [size * random.randrange(2, 6)])


def judge_bytes_for_one_request(seed, got):
    judged(got, "bytes for one request (the pool keeps K and V of the KV heads only, by layer)")


def probe_bytes_for_several_requests(seed):
    return sizes(seed, lambda random, size: [size * n + random.randrange(1, 3) for n in range(4)])


def judge_bytes_for_several_requests(seed, got):
    judged(got, "bytes for several requests (two of them never share a page that isn't full)")


def probe_how_many_bytes_a_prompt_writes(seed):
    return places(seed, prompt)


def judge_how_many_bytes_a_prompt_writes(seed, got):
    judged(got, "bytes that a prompt writes (the rest of its last page isn't written)", amount)


def probe_how_many_bytes_are_written_behind_a_prefix(seed):
    return places(seed, rest)


def judge_how_many_bytes_are_written_behind_a_prefix(seed, got):
    judged(got, "bytes written behind a prefix (what is cached isn't written again)", amount)


def probe_the_place_of_a_token_with_one_layer(seed):
    return places(seed, one_token, layers=1)


def judge_the_place_of_a_token_with_one_layer(seed, got):
    judged(got, "a token with one layer (its value doesn't lie beside its key)", told)


def probe_how_many_pieces_a_token_has(seed):
    return places(seed, one_token)


def judge_how_many_pieces_a_token_has(seed, got):
    judged(got, "pieces of a token with several layers (its layers lie apart)", len)


def probe_the_places_of_a_token_with_several_layers(seed):
    return places(seed, one_token)


def judge_the_places_of_a_token_with_several_layers(seed, got):
    why = "a token with several layers (the keys of all layers lie before the first value)"
    judged(got, why, told)


def probe_the_places_of_a_prompt_in_pages_that_lie_apart(seed):
    return places(seed, prompt)


def judge_the_places_of_a_prompt_in_pages_that_lie_apart(seed, got):
    judged(got, "a prompt (its n-th page is the n-th of the list, wherever that lies)", told)


def probe_the_places_of_a_prompt_in_pages_side_by_side(seed):
    return places(seed, neighbors)


def judge_the_places_of_a_prompt_in_pages_side_by_side(seed, got):
    why = "a prompt in neighboring pages (with no byte between them they make one piece)"
    judged(got, why, told)
