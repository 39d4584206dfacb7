"""Compares attention in two parts with one softmax over all tokens, in float64."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pairs import close, draw, truth

DIM = 8


def inputs(seed, cached, new, q_heads, kv_heads, loud=1.0):
    """q of the new tokens, k and v of all; loud: a factor of the queries."""
    q = draw(seed, new, q_heads, DIM) * np.float32(loud)
    k, v = (draw(seed + i, cached + new, kv_heads, DIM) for i in (1, 2))
    return q, k, v


def expected(q, k, v):
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    out, group = np.zeros(q.shape), q.shape[1] // k.shape[1]
    for i in range(len(q)):
        seen = len(k) - len(q) + i + 1
        for head in range(q.shape[1]):
            scores = k[:seen, head // group] @ q[i, head] / math.sqrt(DIM)
            weights = np.exp(scores - scores.max())
            out[i, head] = weights @ v[:seen, head // group] / weights.sum()
    return out


def answered(q, k, v):
    from answer import attend

    cached = len(k) - len(q)
    q, k, v = (torch.tensor(x) for x in (q, k, v))
    return attend(q, (k[:cached], v[:cached]), (k[cached:], v[cached:])).tolist()


def judged(got, drawn, why, atol=1e-4):
    close(got, expected(*drawn).tolist(), atol, why)


def plain(seed):
    return inputs(seed, 0, 5, 3, 3)


def probe_a_prompt_without_a_prefix(seed):
    return answered(*plain(seed))


def judge_a_prompt_without_a_prefix(seed, got):
    judged(got, plain(seed), "a prompt alone (each token sees itself and those before it)")


def grouped(seed):
    return inputs(seed, 0, 5, 6, 2)


def probe_grouped_heads(seed):
    return answered(*grouped(seed))


def judge_grouped_heads(seed, got):
    why = "grouped heads (query heads that stand side by side share a KV head)"
    judged(got, grouped(seed), why)


def alike(seed):
    """A decode in which all keys are the same, so that each token weighs the same."""
    q, k, v = inputs(seed, 6, 1, 2, 2)
    return q, np.broadcast_to(k[:1], k.shape).copy(), v


def probe_a_decode_with_equal_scores(seed):
    return answered(*alike(seed))


def judge_a_decode_with_equal_scores(seed, got):
    judged(got, alike(seed), "equal scores (a part weighs by all its keys, not by its best one)")


def decode(seed):
    return inputs(seed, 6, 1, 1, 1, loud=2.0)


def probe_a_decode_with_other_scores(seed):
    return answered(*decode(seed))


def judge_a_decode_with_other_scores(seed, got):
    judged(got, decode(seed), "unlike scores (a part weighs by its scores, not by its length)")


def probe_the_future_behind_a_prefix(seed):
    q, k, v = inputs(seed, 6, 3, 2, 2)
    other = v.copy()
    other[-1] += 100
    a, b = answered(q, k, v), answered(q, k, other)
    return [a[:-1], b[:-1]]


def judge_the_future_behind_a_prefix(seed, got):
    why = "earlier tokens when the last changes (behind a prefix, too, a token sees none after it)"
    close(got[1], got[0], 1e-5, why)


def several(seed):
    return inputs(seed, 6, 3, 4, 2, loud=2.0)


def probe_several_tokens_behind_a_prefix(seed):
    return answered(*several(seed))


def judge_several_tokens_behind_a_prefix(seed, got):
    why = "several tokens behind a prefix (each head of each token has a share of its own)"
    judged(got, several(seed), why)


def loud(seed):
    return inputs(seed, 6, 3, 4, 2, loud=300.0)


def probe_large_scores(seed):
    return answered(*loud(seed))


def judge_large_scores(seed, got):
    judged(got, loud(seed), "large scores (exp of a score of some hundreds is infinite)", 5e-3)


class Lengths(TorchDispatchMode):
    """Notes the sizes of everything that is made."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.seen |= set(result.shape)
        return result


def probe_the_parts_stay_apart(seed):
    from answer import attend

    q, k, v = (torch.tensor(x) for x in inputs(seed, 20, 3, 4, 2))
    parts = [(x[:20].clone(), x[20:].clone()) for x in (k, v)]
    with Lengths() as lengths:
        attend(q, *zip(*parts, strict=True))
    return sorted(lengths.seen)


def judge_the_parts_stay_apart(seed, got):
    truth(23 not in got, "20 and 3 tokens stay apart (joining copies the prefix)", got)
