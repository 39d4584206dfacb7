"""Lets the real engine run batches with the reader's sampler, on given logits."""

from __future__ import annotations

from random import Random

import torch

from pairs import close, equal

VOCAB = 12
CPU = torch.device("cpu")


class Given:
    """A model that gives the same logits for each request of each batch."""

    def __init__(self, ctx, logits):
        self.ctx, self.logits = ctx, torch.tensor(logits)

    def forward(self):
        return self.logits.repeat(self.ctx.batch.padded_size, 1)


def drawn(seed, shift=0.0):
    """Logits, their two best ids, which are end ids, and the third best, which isn't one."""
    random = Random(seed)
    *ends, other = random.sample(range(VOCAB), 3)
    logits = [random.uniform(0.5, 2.0) for _ in range(VOCAB)]
    for token, logit in ((ends[0], 4.0), (ends[1], 3.5), (other, 3.0)):
        logits[token] = logit
    return [logit + shift for logit in logits], ends, other


def engine(sampler, logits):
    """An engine that has what forward_batch needs, and no more."""
    from minisgl.core import Context
    from minisgl.engine import Engine

    made = Engine.__new__(Engine)
    made.device, made.ctx, made.sampler = CPU, Context(1), sampler
    made.model = Given(made.ctx, logits)
    return made


def patient(logits, ends):
    from answer import PatientSampler

    return engine(PatientSampler(CPU, VOCAB, end_ids=tuple(ends)), logits)


def patient_requests(asks, prompt=1, rows=None):
    from answer import PatientParams

    return requests([PatientParams(**ask) for ask in asks], prompt, rows)


def requests(params, prompt=1, rows=None):
    from minisgl.core import Req

    ids = torch.zeros(prompt, dtype=torch.int32)
    rows = rows or range(len(params))
    return [
        Req(ids, row, 0, 20, uid, param, None)
        for uid, (row, param) in enumerate(zip(rows, params, strict=True))
    ]


def batch_of(reqs):
    from minisgl.core import Batch

    return Batch(reqs, "decode" if reqs[0].cached_len else "prefill")


def served(made, reqs, passes, late=0):
    """The tokens of each pass; late: for how many passes the CPU has not seen its tokens."""
    found, seen = [], 0
    for done in range(passes):
        while seen < done - late:
            for req, token in zip(reqs, found[seen], strict=True):
                req.append_host(token)
            seen += 1
        batch = batch_of(reqs)
        output = made.forward_batch(batch, made.sampler.prepare(batch))
        found.append(output.next_tokens_cpu.tolist())
    return found


def alone(seed, min_tokens, passes, prompt=1, late=0):
    """One greedy request; the tokens of its passes, and there is one end id."""
    logits, ends, _ = drawn(seed)
    logits[ends[1]] = 0.0
    made = patient(logits, ends[:1])
    reqs = patient_requests([{"min_tokens": min_tokens}], prompt)
    return [token for (token,) in served(made, reqs, passes, late)]


def wanted(seed, min_tokens, passes):
    _, (end, _), other = drawn(seed)
    return [other if done < min_tokens else end for done in range(passes)]


def least(seed):
    return Random(seed).randrange(2, 6)


def probe_the_first_greedy_token(seed):
    return alone(seed, least(seed), 1)


def judge_the_first_greedy_token(seed, got):
    equal(got[0], drawn(seed)[2], "first token (a greedy batch has no end ids either)")


def probe_a_long_prompt(seed):
    return alone(seed, least(seed), 1, prompt=9)


def judge_a_long_prompt(seed, got):
    why = "first token behind a prompt of 9 tokens (only tokens of the answer count)"
    equal(got[0], drawn(seed)[2], why)


def probe_the_last_early_token(seed):
    return alone(seed, least(seed), least(seed), prompt=3)


def judge_the_last_early_token(seed, got):
    why = "the last of the first min_tokens tokens (the engine counts it before it calls sample)"
    equal(got[-1], drawn(seed)[2], why)
    equal(got, wanted(seed, least(seed), least(seed)), "the first min_tokens tokens, each no end")


def probe_the_first_end(seed):
    return alone(seed, least(seed), least(seed) + 1, prompt=3)


def judge_the_first_end(seed, got):
    why = "the token after the first min_tokens ones (from here on it may be an end id)"
    equal(got[-1], drawn(seed)[1][0], why)


def probe_tokens_that_the_cpu_has_not_seen(seed):
    return alone(seed, least(seed), least(seed) + 3, prompt=3, late=1)


def judge_tokens_that_the_cpu_has_not_seen(seed, got):
    why = "tokens when each comes to the CPU a pass late (input_ids lack the last one then)"
    equal(got, wanted(seed, least(seed), least(seed) + 3), why)


def probe_two_end_ids(seed):
    logits, ends, _ = drawn(seed)
    return served(patient(logits, ends), patient_requests([{"min_tokens": 1}]), 2)


def judge_two_end_ids(seed, got):
    _, ends, other = drawn(seed)
    why = "first token with two end ids (a model may have several, and each ends the answer)"
    equal(got[0][0], other, why)
    equal(got[1][0], ends[0], "second token with two end ids and min_tokens 1")


def places(seed):
    """min_tokens of three requests, and their rows of the page table."""
    random = Random(seed)
    least, turn = [0, 0, 0], random.choice([1, 2])
    least[random.randrange(3)] = random.randrange(1, 4)
    return least, [(place + turn) % 3 for place in range(3)]


def probe_places_and_rows(seed):
    logits, ends, _ = drawn(seed)
    least, rows = places(seed)
    reqs = patient_requests([{"min_tokens": n} for n in least], rows=rows)
    return served(patient(logits, ends), reqs, 4)


def judge_places_and_rows(seed, got):
    _, (end, _), other = drawn(seed)
    why = "tokens of three requests (logits are in the order of the batch, not of the page table)"
    least, _ = places(seed)
    for done, tokens in enumerate(got):
        equal(tokens, [other if done < n else end for n in least], f"pass {done}: {why}")


def probe_ends_that_are_ignored(seed):
    logits, ends, _ = drawn(seed)
    asks = [{"min_tokens": least(seed), "ignore_eos": ignored} for ignored in (False, True)]
    return served(patient(logits, ends), patient_requests(asks), 1)[0]


def judge_ends_that_are_ignored(seed, got):
    _, (end, _), other = drawn(seed)
    equal(got[0], other, "first token beside a request with ignore_eos")
    why = "first token of a request with ignore_eos (an end id doesn't end its answer)"
    equal(got[1], end, why)


def probe_logits_below_zero(seed):
    logits, ends, _ = drawn(seed, shift=-9.0)
    return served(patient(logits, ends), patient_requests([{"min_tokens": 2}]), 1)[0]


def judge_logits_below_zero(seed, got):
    why = "first token, all logits below 0 (a logit of 0 is a number like any other, here the best)"
    equal(got[0], drawn(seed)[2], why)


def compared(seed, asks, passes=1):
    """Tokens of the chapter's sampler on a model without end ids, and of the reader's."""
    from minisgl.core import SamplingParams
    from minisgl.engine.sample import Sampler

    logits, ends, _ = drawn(seed)
    never = [-float("inf") if i in ends else x for i, x in enumerate(logits)]
    plain = requests([SamplingParams(**ask) for ask in asks])
    right = served(engine(Sampler(CPU, VOCAB), never), plain, passes)
    early = patient_requests([{**ask, "min_tokens": 20} for ask in asks])
    return {"right": right, "drawn": served(patient(logits, ends), early, passes)}


def probe_the_draw(seed):
    asks = [{"temperature": 1.0, "seed": 100 * seed + i} for i in range(60)]
    return compared(seed, asks)


def judge_the_draw(seed, got):
    why = "60 tokens (a draw spreads over all tokens that are left, it doesn't fall to the best)"
    equal(got["drawn"], got["right"], why)


def probe_filters_and_penalties(seed):
    asks = [{"temperature": 1.5, "top_k": 2 + i % 4, "seed": seed + i} for i in range(20)]
    asks += [{"temperature": 1.0, "top_p": 0.6, "seed": seed + i} for i in range(20)]
    asks += [{"frequency_penalty": 1.5}, {"presence_penalty": 2.0, "temperature": 1.0}]
    return compared(seed, asks, 4)


def judge_filters_and_penalties(seed, got):
    why = "tokens with top_k, top_p and penalties (ends are out before all of these)"
    equal(got["drawn"], got["right"], why)


def probe_log_probabilities(seed):
    from minisgl.core import SamplingParams
    from minisgl.engine.sample import Sampler

    logits, ends, _ = drawn(seed)
    found, asks = [], {"top_logprobs": VOCAB}
    plain = batch_of(requests([SamplingParams(**asks)]))
    raw = engine(Sampler(CPU, VOCAB), logits)
    found.append(raw.forward_batch(plain, raw.sampler.prepare(plain)))

    made, early = patient(logits, ends), batch_of(patient_requests([{"min_tokens": 2, **asks}]))
    found.append(made.forward_batch(early, made.sampler.prepare(early)))
    return [[out.logprobs.top.tolist(), out.logprobs.top_ids.tolist()] for out in found]


def judge_log_probabilities(seed, got):
    why = "log-probabilities (the engine takes them, after sample, from the same logits)"
    close(got[1][0], got[0][0], 1e-5, why)
    equal(got[1][1], got[0][1], why)


def probe_two_batches_prepared_at_once(seed):
    logits, ends, _ = drawn(seed)
    made, found = patient(logits, ends), []
    batches = [batch_of(patient_requests([{"min_tokens": n}])) for n in (2, 0)]
    prepared = [made.sampler.prepare(batch) for batch in batches]
    for batch, args in zip(batches, prepared, strict=True):
        found += made.forward_batch(batch, args).next_tokens_cpu.tolist()
    return found


def judge_two_batches_prepared_at_once(seed, got):
    _, (end, _), other = drawn(seed)
    why = "batch {} of two that are prepared before they run (each has its own args)"
    equal(got[0], other, why.format(0))
    equal(got[1], end, why.format(1))
