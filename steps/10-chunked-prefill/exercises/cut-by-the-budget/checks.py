"""Serves drawn requests with the chapter's scheduler; compares predictions with its steps."""

from __future__ import annotations

from random import Random

from pairs import Mismatch, equal
from stub_engine import stub_scheduler, user

SLOTS = 512


def load(random, page_size, count, is_cached):
    """Pairs of a prompt's length and what is cached of it, in whole pages."""
    found = []
    for _ in range(count):
        cached = page_size * random.randrange(1, 12 // page_size + 1) if is_cached else 0
        found.append((cached + random.randrange(1, 18), cached))
    return found


def prompt(random, uid, length):
    """No two begin alike."""
    return [uid, *(random.randrange(97) for _ in range(length - 1))]


def served(random, page_size, budget, prompts):
    """The scheduler's batches up to the end of the last prompt: phase, and tokens by request."""
    scheduler = stub_scheduler(
        page_size=page_size,
        max_extend_tokens=budget,
        num_page_override=SLOTS // page_size,
        cache_type="radix",
    )
    texts = [prompt(random, uid, length) for uid, (length, _) in enumerate(prompts)]
    for uid, (_, cached) in enumerate(prompts):
        if cached:
            scheduler.send(user(100 + uid, texts[uid][:cached], 1))
            scheduler.run()
    scheduler.prefill_manager._in_a_row = 0
    scheduler.batches.clear()
    scheduler.send(*(user(uid, text, 60) for uid, text in enumerate(texts)))
    while scheduler.prefill_manager.runnable or not scheduler.batches:
        scheduler.step()
    return [
        [phase, {uid: end - start for uid, start, end in rows}] for phase, rows in scheduler.batches
    ]


def loads(seed, counts, is_cached=False):
    """Budgets and prompts, and what the scheduler does with them."""
    random = Random(seed)
    for i in range(10):
        page_size, budget = random.choice((1, 4)), random.randrange(2, 10)
        prompts = load(random, page_size, random.choice(counts), is_cached)
        if not is_cached and i % 2:  # ends of prompts and of batches that fall together
            prompts = [(max(1, length // budget) * budget, 0) for length, _ in prompts]
        yield budget, prompts, served(random, page_size, budget, prompts)


def asked(budget, prompts):
    return f"budget {budget}, prompts {prompts}"


def compared(case, what):
    if case["predicted"] != case["measured"]:
        raise Mismatch(f"{what}; {case['asked']}", case["measured"], case["predicted"])
    equal(case["predicted"], case["measured"], what)


def batches_of(seed, counts, is_cached=False):
    runs = list(loads(seed, counts, is_cached))

    from answer import batches

    return [
        {
            "asked": asked(budget, prompts),
            "measured": [as_text(parts) for phase, parts in steps if phase == "prefill"],
            "predicted": [as_text(dict(parts)) for parts in batches(budget, list(prompts))],
        }
        for budget, prompts, steps in runs
    ]


def as_text(parts):
    return {str(uid): count for uid, count in sorted(parts.items())}


def probe_one_prompt_is_cut(seed):
    return batches_of(seed, (1,))


def judge_one_prompt_is_cut(seed, got):
    for case in got:
        compared(case, "tokens of each batch (each chunk but the last takes the whole budget)")


def probe_prompts_share_a_batch(seed):
    return batches_of(seed + 1, (2, 3, 4))


def judge_prompts_share_a_batch(seed, got):
    what = "tokens of each batch (what a prompt leaves of the budget is for those behind it)"
    for case in got:
        compared(case, what)


def probe_prompts_that_are_cached_in_part(seed):
    return batches_of(seed + 2, (1, 2, 3), is_cached=True)


def judge_prompts_that_are_cached_in_part(seed, got):
    for case in got:
        compared(case, "tokens of each batch (the budget counts what the pass computes)")


def phases_of(seed, counts):
    runs = list(loads(seed, counts))

    from answer import phases

    return [
        {
            "asked": asked(budget, prompts),
            "measured": "".join("P" if phase == "prefill" else "D" for phase, _ in steps),
            "predicted": phases(budget, list(prompts)),
        }
        for budget, prompts, steps in runs
    ]


def probe_steps_of_one_prompt(seed):
    return phases_of(seed + 3, (1,))


def judge_steps_of_one_prompt(seed, got):
    for case in got:
        compared(case, "steps (where nobody runs, the next chunk follows at once)")


def probe_steps_of_several_prompts(seed):
    return phases_of(seed + 4, (3, 4, 5))


def judge_steps_of_several_prompts(seed, got):
    for case in got:
        steps, right = case["predicted"], case["measured"]
        reason = "a step that is owed and that nobody could take stays owed"
        if "D" in right and "D" not in steps:
            reason = "between two chunks the running requests get one step"
        elif steps.count("D") > right.count("D"):
            reason = "only a batch that ends with a chunk is so long that a step is owed at once"
        compared(case, f"steps ({reason})")


def probe_pages_that_a_chunk_takes(seed):
    random, runs = Random(seed + 5), []
    for _ in range(8):
        size, budget, length = (
            random.choice((4, 8)),
            random.randrange(2, 14),
            random.randrange(9, 50),
        )
        made = {"page_size": size, "max_extend_tokens": budget, "num_page_override": SLOTS // size}
        scheduler = stub_scheduler(**made)
        scheduler.send(user(0, prompt(random, 0, length), 60))
        free = [len(scheduler.cache_manager.free_slots)]
        while not scheduler.replies:
            scheduler.step()
            free.append(len(scheduler.cache_manager.free_slots))
        taken = [before - after for before, after in zip(free, free[1:], strict=False)]
        runs.append((size, budget, length, taken))

    from answer import new_pages

    return [
        {
            "asked": f"page size {size}, budget {budget}, prompt {length}",
            "measured": taken,
            "predicted": list(new_pages(size, budget, length)),
        }
        for size, budget, length, taken in runs
    ]


def judge_pages_that_a_chunk_takes(seed, got):
    for case in got:
        reason = "a page is taken with its first token, not with its last"
        if sum(case["predicted"]) > sum(case["measured"]):
            reason = "a chunk goes on in the page in which the one before it ended"
        compared(case, f"pages that each chunk takes ({reason})")


def pairs_of_requests(random, size, budget):
    """Two requests, the first of which leaves some of its last batch's budget; and their pages."""
    first_len = budget * random.randrange(1, 4) + random.randrange(1, budget)
    first = (first_len, random.randrange(1, 24))
    second = (random.randrange(1, 20), random.randrange(1, 12))
    return first, second, [-(-sum(lengths) // size) for lengths in (first, second)]


def has_to_wait(random, pages, size, budget, first, second):
    made = {"page_size": size, "max_extend_tokens": budget, "num_page_override": pages}
    scheduler = stub_scheduler(**made)
    for uid, (length, output) in enumerate((first, second)):
        scheduler.send(user(uid, prompt(random, uid, length), output))
    while not scheduler.replies:
        scheduler.step()
    return 1 not in [uid for uid, *_ in scheduler.batches[-1][1]]


def waits_of(seed, sizes):
    random, runs = Random(seed), []
    for i in range(12):
        size, budget = random.choice(sizes), random.randrange(4, 12)
        first, second, needed = pairs_of_requests(random, size, budget)
        pages = max(*needed, sum(needed) - i % 3)
        case = (pages, size, budget, first, second)
        runs.append((case, has_to_wait(random, *case)))

    from answer import waits

    return [
        {
            "asked": "{} pages of {}, budget {}, requests {} and {}".format(*case),
            "measured": waited,
            "predicted": waits(*case),
        }
        for case, waited in runs
    ]


def probe_who_has_to_wait_for_slots(seed):
    return waits_of(seed + 6, (1,))


def judge_who_has_to_wait_for_slots(seed, got):
    reason = "the first request was promised all that its prompt and its output may take"
    for case in got:
        compared(case, f"whether the second request waits ({reason})")


def probe_who_has_to_wait_for_pages(seed):
    return waits_of(seed + 7, (4, 8))


def judge_who_has_to_wait_for_pages(seed, got):
    for case in got:
        compared(case, "whether the second request waits (whole pages are promised to each)")
