"""Serves drawn requests by the real scheduler, and compares its batches with the prediction."""

from __future__ import annotations

from random import Random

from pairs import equal
from stub_engine import stub_scheduler, user

WIDE = {"max_extend_tokens": 999, "max_running_req": 30, "num_pages": 400, "page_size": 1}


def measured(limits, requests):
    """Phase and uids of each launch; requests: (uid, arrives, prompt, max_tokens)."""
    rest = {k: v for k, v in limits.items() if k != "num_pages"}
    scheduler = stub_scheduler(num_page_override=limits["num_pages"], **rest)
    for step in range(1 + max(arrives for _, arrives, *_ in requests)):
        for uid, arrives, prompt, max_tokens in requests:
            if arrives == step:
                scheduler.send(user(uid, [1 + i % 90 for i in range(prompt)], max_tokens))
        scheduler.step()
    scheduler.run()
    return [[phase, [uid for uid, *_ in rows]] for phase, rows in scheduler.batches]


def compared(limits, requests):
    found = measured(limits, requests)

    from answer import Request, timeline

    return {
        "measured": found,
        "predicted": timeline(dict(limits), [Request(*request) for request in requests]),
    }


def judged(got, why):
    for step, (a, b) in enumerate(zip(got["predicted"], got["measured"], strict=False)):
        equal(str(list(a)), str(b), f"batch of step {step} ({why})")
    equal(len(got["predicted"]), len(got["measured"]), f"number of steps ({why})")


def probe_one_request(seed):
    return compared(WIDE, [(0, 0, 4, Random(seed).randrange(3, 7))])


def judge_one_request(seed, got):
    judged(got, "the pass over a prompt gives the first token too")


def probe_who_goes_first(seed):
    tokens = Random(seed).randrange(5, 9)
    return compared(WIDE, [(0, 0, 4, tokens), (1, 2, 3, 4)])


def judge_who_goes_first(seed, got):
    judged(got, "a batch is all prompts or all next tokens, and prompts go first")


def probe_the_order_of_rows(seed):
    uids = Random(seed).sample(range(1, 50), 3)
    uids.sort(reverse=True)
    return compared(WIDE, [(uid, 0, 3, 4) for uid in uids])


def judge_the_order_of_rows(seed, got):
    judged(got, "prompts stand as they came, next tokens by uid")


def probe_the_budget(seed):
    random = Random(seed)
    requests = [(uid, 0, random.randrange(3, 8), 3) for uid in range(8)]
    return compared({**WIDE, "max_extend_tokens": 10}, requests)


def judge_the_budget(seed, got):
    judged(got, "a prompt joins while any budget is left, and may exceed it")


def probe_the_rows(seed):
    random = Random(seed)
    requests = [(uid, uid // 3, 3, random.randrange(2, 6)) for uid in range(9)]
    return compared({**WIDE, "max_running_req": 3}, requests)


def judge_the_rows(seed, got):
    judged(got, "a row is free in the step after its request's last token")


def probe_promised_pages(seed):
    tokens = Random(seed).randrange(5, 8)
    requests = [(uid, uid, 4, tokens) for uid in range(6)]
    return compared({**WIDE, "num_pages": 2 * (4 + tokens) + 1}, requests)


def judge_promised_pages(seed, got):
    judged(got, "a request starts only if its longest answer fits beside what others may take")


def probe_whole_pages(seed):
    prompt = Random(seed).randrange(2, 5)
    requests = [(uid, uid, prompt, 9 - prompt) for uid in range(6)]
    return compared({**WIDE, "page_size": 4, "num_pages": 7}, requests)


def judge_whole_pages(seed, got):
    judged(got, "tokens are counted in whole pages")


def probe_nobody_overtakes(seed):
    tokens = Random(seed).randrange(4, 8)
    requests = [(0, 0, 4, tokens), (1, 1, 9, tokens), (2, 1, 1, 2)]
    return compared({**WIDE, "num_pages": 12 + tokens}, requests)


def judge_nobody_overtakes(seed, got):
    judged(got, "the first that has to wait keeps those behind it waiting")


def probe_a_stream_of_prompts(seed):
    random = Random(seed)
    requests = [(uid, uid, 2, random.randrange(2, 5)) for uid in range(14)]
    return compared(WIDE, requests)


def judge_a_stream_of_prompts(seed, got):
    judged(got, "after eight prefill batches the running requests are owed a step")
