"""The batches of continuous batching, from the queue and the limits alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Request:
    """It comes in before step `arrives` (the first is 0); its answer has max_tokens tokens."""

    uid: int
    arrives: int
    prompt: int
    max_tokens: int


def timeline(limits: dict[str, int], requests: list[Request]) -> list[tuple[str, list[int]]]:
    """The phase and the uids of each step's batch, until all requests have ended."""
    coming, waiting, batches = list(requests), [], []
    left: dict[int, tuple[Request, int]] = {}
    in_a_row = 0
    while coming or waiting or left:
        waiting += [r for r in coming if r.arrives <= len(batches)]
        coming = [r for r in coming if r.arrives > len(batches)]
        is_owed = in_a_row >= 8 and bool(left)
        new = [] if is_owed else started(limits, waiting, [r for r, _ in left.values()])
        in_a_row = in_a_row + 1 if new else 0
        batch = [r.uid for r in new] or sorted(left)
        batches.append(("prefill" if new else "decode", batch))
        waiting = [r for r in waiting if r not in new]
        left |= {r.uid: (r, r.max_tokens) for r in new}
        for uid in batch:
            left[uid] = (left[uid][0], left[uid][1] - 1)
        left = {uid: pair for uid, pair in left.items() if pair[1] > 0}
    return batches


def started(
    limits: dict[str, int], waiting: list[Request], running: list[Request]
) -> list[Request]:
    """The waiting requests that make up the next prefill batch."""
    new: list[Request] = []
    budget = limits["max_extend_tokens"]
    for request in waiting:
        all_of_them = [*running, *new, request]
        promised = sum(pages(limits, r) for r in all_of_them)
        if budget <= 0 or len(all_of_them) > limits["max_running_req"]:
            break
        if promised > limits["num_pages"]:
            break
        budget -= request.prompt
        new.append(request)
    return new


def pages(limits: dict[str, int], request: Request) -> int:
    """Pages that the request takes at its full length."""
    return -(-(request.prompt + request.max_tokens) // limits["page_size"])
