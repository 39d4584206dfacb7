"""Chapter 06: each row's token is drawn from the distribution that its own parameters ask for.

Most tests replace the random draws by an even grid over [0, 1), so that the counts are exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from pairs import close, draw, equal, public_bug, truth

N = 1000
Row = tuple[list[float], dict[str, Any]]


def requests(params: list[dict[str, Any]]) -> Any:
    """A batch with one request for each set of sampling parameters."""
    from minisgl.core import Batch, Req, SamplingParams

    ids = torch.zeros(3, dtype=torch.int32)
    return Batch(
        [Req(ids, 0, 0, 1, uid, SamplingParams(**p), None) for uid, p in enumerate(params)],
        "prefill",
    )


def sampled(
    logits: torch.Tensor, params: list[dict[str, Any]], uniforms: torch.Tensor | None = None
) -> list[int]:
    """One token for each row of logits, from the request's own draw or from uniforms."""
    from minisgl.engine.sample import Sampler

    sampler = Sampler(torch.device("cpu"), logits.shape[-1])
    args = sampler.prepare(requests(params))
    if uniforms is not None:
        args.uniforms = uniforms
    return sampler.sample(logits, args).tolist()


def counts(rows: list[Row], dtype: torch.dtype = torch.float32) -> list[list[int]]:
    """How often each row gives each token, when N copies of all rows make up one batch."""
    logits = torch.tensor([row for row, _ in rows], dtype=dtype).repeat(N, 1)
    grid = (torch.arange(N, dtype=torch.float64) + 0.5) / N
    uniforms = grid.repeat_interleave(len(rows))
    tokens = torch.tensor(sampled(logits, [p for _, p in rows] * N, uniforms))
    width = logits.shape[-1]
    return [tokens[i :: len(rows)].bincount(minlength=width).tolist() for i in range(len(rows))]


def distribution(
    logits: list[float], temperature: float, top_k: int = -1, top_p: float = 1.0
) -> np.ndarray:
    """Temperature, then the top_k best, then the fewest of these that make up top_p of them."""
    wide = np.array(logits, dtype=np.float64)
    probs = np.exp((wide - wide.max()) / temperature)
    order = np.argsort(-probs, kind="stable")[: None if top_k == -1 else top_k]
    kept = probs[order] / probs[order].sum()
    needed = int(np.searchsorted(np.cumsum(kept), top_p)) + 1
    result = np.zeros(len(wide))
    result[order[:needed]] = kept[:needed] / kept[:needed].sum()
    return result


def check(rows: list[Row], got: list[list[int]], atol: float = 1.0) -> None:
    for (logits, params), found in zip(rows, got, strict=True):
        close(found, N * distribution(logits, **params), atol + 1e-6, f"of {N} draws with {params}")


TIE = [0.5, 3.0, -1.0, 3.0, 3.0, 2.9]


@public_bug("B30")
def probe_temperature_0_takes_the_best_logit_and_the_lowest_id_of_a_tie(seed):
    cold = {"temperature": 0.0, "top_p": 0.9, "top_k": 5}
    beside = [{"temperature": 1.0}, cold, {"temperature": 1.0, "top_k": 3, "top_p": 0.8}]
    alone = [sampled(torch.tensor([TIE]), [cold])[0] for _ in range(100)]
    logits = torch.tensor([TIE] * 300)
    grid = torch.linspace(0, 0.999, 300, dtype=torch.float64)
    return [alone, sampled(logits, beside * 100, grid)]


def judge_temperature_0_takes_the_best_logit_and_the_lowest_id_of_a_tie(seed, got):
    alone, mixed = got
    equal(alone, [1] * 100, "100 draws alone")
    equal(mixed[1::3], [1] * 100, "100 draws beside rows of temperature 1")
    equal(sorted(set(mixed[2::3])), [1, 3, 4], "ids that the row with top_k 3 draws")
    truth(len(set(mixed[0::3])) > 3, "the row without filters draws more ids", mixed[0::3])


@public_bug("B30")
def probe_every_way_to_be_greedy_takes_the_lowest_id_of_a_tie(seed):
    ways = [
        {},
        {"top_p": 0.5},
        {"temperature": 5.0, "top_k": 1},
        {"temperature": 5.0, "top_k": 1, "top_p": 0.01, "seed": 4},
    ]
    together = sampled(torch.tensor([TIE] * 5), [*ways, {"temperature": 9.0}])
    return [sampled(torch.tensor([TIE] * 4), ways), together[:4]]


def judge_every_way_to_be_greedy_takes_the_lowest_id_of_a_tie(seed, got):
    equal(got, [[1] * 4] * 2, "tokens of greedy rows, among themselves and beside a sampled one")


@public_bug("B30")
def probe_a_tiny_temperature_is_as_good_as_greedy(seed):
    colds = [1e-3, 1e-38, 1e-40, 1e-46, 1e-300]
    logits = torch.tensor([[1.0, 90.0, 89.0, -90.0]] * len(colds))
    return sampled(logits, [{"temperature": t} for t in colds])


def judge_a_tiny_temperature_is_as_good_as_greedy(seed, got):
    equal(got, [1] * 5, "tokens at temperatures from 1e-3 down to 1e-300")


B28 = [([1.0, 3.0], {"temperature": 0.5}), ([1.0, 3.0], {"temperature": 2.0})]


@public_bug("B28")
def probe_each_row_is_divided_by_its_own_temperature(seed):
    return counts(B28)


def judge_each_row_is_divided_by_its_own_temperature(seed, got):
    for scores, found in zip(([2.0, 6.0], [0.5, 1.5]), got, strict=True):
        second = N / (1 + math.exp(scores[0] - scores[1]))
        close(found, [N - second, second], 1.0, f"draws from the softmax of {scores}")


def some_logits(seed: int) -> list[float]:
    return (1.5 * draw(seed, 8)).tolist()


def temperatures(seed: int) -> list[Row]:
    return [(some_logits(seed + i), {"temperature": t}) for i, t in enumerate((0.3, 1.0, 3.0))]


def probe_without_filters_the_whole_softmax_is_drawn_from(seed):
    return counts(temperatures(seed))


def judge_without_filters_the_whole_softmax_is_drawn_from(seed, got):
    check(temperatures(seed), got)


def top_ks(seed: int) -> list[Row]:
    return [
        (some_logits(seed + i), {"temperature": 1.2, "top_k": k})
        for i, k in enumerate((2, 3, 7, 8, 9, 1000, -1))
    ]


def probe_top_k_keeps_that_many_and_more_than_the_vocabulary_keeps_all(seed):
    rows = top_ks(seed)
    return [counts(rows), [counts([row])[0] for row in rows]]


def judge_top_k_keeps_that_many_and_more_than_the_vocabulary_keeps_all(seed, got):
    check(top_ks(seed), got[0])
    equal(got[1], got[0], "each row alone, beside all in one batch")


def top_ps(seed: int) -> list[Row]:
    return [
        (some_logits(seed + i), {"temperature": 0.9, "top_p": p})
        for i, p in enumerate((1e-9, 0.2, 0.55, 0.97, 1.0))
    ]


def probe_top_p_keeps_the_fewest_that_make_up_its_share(seed):
    rows = top_ps(seed)
    return [counts(rows), [counts([row])[0] for row in rows]]


def judge_top_p_keeps_the_fewest_that_make_up_its_share(seed, got):
    check(top_ps(seed), got[0])
    equal(got[1], got[0], "each row alone, beside all in one batch")


def probe_top_p_stops_where_its_share_is_just_reached(seed):
    rows = [([2.0] * 4, {"temperature": 3.0, "top_p": p}) for p in (0.25, 0.5, 0.75, 0.76)]
    return [sorted(count for count in found if count) for found in counts(rows)]


def judge_top_p_stops_where_its_share_is_just_reached(seed, got):
    want = [[N], [N / 2] * 2, [N / 3] * 3, [N / 4] * 4]
    for kept, found in zip(want, got, strict=True):
        close(found, kept, 1.0, f"draws of the {len(kept)} tokens that are left of 4 equal ones")


def probe_a_draw_at_the_end_of_one_token_s_part_belongs_to_the_next(seed):
    params = [{"temperature": 1.0}] * 4
    ends = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64)
    return sorted(sampled(torch.zeros(4, 4), params, ends))


def judge_a_draw_at_the_end_of_one_token_s_part_belongs_to_the_next(seed, got):
    equal(got, [0, 1, 2, 3], "tokens of 4 equal logits that 0, 1/4, 2/4 and 3/4 draw")


def probe_a_tiny_top_p_keeps_the_best_token(seed):
    logits = torch.tensor([some_logits(seed)] * 3)
    params = [{"temperature": 1.0, "top_p": p} for p in (1e-6, 1e-46, 1e-300)]
    return sampled(logits, params, torch.tensor([0.1, 0.5, 0.9999], dtype=torch.float64))


def judge_a_tiny_top_p_keeps_the_best_token(seed, got):
    equal(got, [int(np.argmax(some_logits(seed)))] * 3, "tokens at a top_p of 1e-6 and less")


LOGS = [math.log(p) for p in (0.1, 0.4, 0.2, 0.3)]
ORDER = [(LOGS, {"temperature": 1.0, "top_k": 2, "top_p": p}) for p in (0.5, 0.6)]


def probe_top_p_is_a_share_of_what_top_k_left(seed):
    return counts(ORDER)


def judge_top_p_is_a_share_of_what_top_k_left(seed, got):
    # 0.4 and 0.3 are left, which are 0.571 and 0.429 of what is left: 0.571 alone makes up 0.5.
    close(got, [[0, N, 0, 0], [0, N * 4 / 7, 0, N * 3 / 7]], 1.0, "draws at top_p 0.5 and 0.6")


def mixed(seed: int) -> list[Row]:
    return [
        (some_logits(seed), {"temperature": 0.7, "top_k": 3}),
        (some_logits(seed + 1), {"temperature": 2.5}),
        (some_logits(seed + 2), {"temperature": 1.0, "top_p": 0.6}),
        (some_logits(seed + 3), {"temperature": 1.5, "top_k": 5, "top_p": 0.8}),
    ]


def probe_each_row_has_its_own_filters(seed):
    return counts(mixed(seed))


def judge_each_row_has_its_own_filters(seed, got):
    check(mixed(seed), got)


MASKED = [-math.inf, 1.0, -math.inf, 0.5, -math.inf, -math.inf]
ONE_LEFT = [-math.inf] * 4 + [-7.0, -math.inf]
EDGES = [0.0, 0.5, 1.0 - 2.0**-53]


def probe_a_token_with_a_logit_of_minus_infinity_is_never_drawn(seed):
    params = [{"temperature": t, "top_k": k, "top_p": p}
              for t in (0.2, 8.0) for k in (-1, 4) for p in (1.0, 0.999)]  # fmt: skip
    edges = torch.tensor(EDGES * len(params), dtype=torch.float64)
    each = [p for p in params for _ in EDGES]
    return [sampled(torch.tensor([row] * len(each)), each, edges) for row in (MASKED, ONE_LEFT)]


def judge_a_token_with_a_logit_of_minus_infinity_is_never_drawn(seed, got):
    truth(set(got[0]) == {1, 3}, "only ids 1 and 3 are drawn, also at the draws' ends", got[0])
    equal(sorted(set(got[1])), [4], "ids drawn where only id 4 is possible")


def probe_nan_in_one_row_leaves_the_other_rows_alone(seed):
    logits = torch.tensor([[1.0, math.nan, 2.0], [0.0, 9.0, 0.0], [math.nan] * 3, [9.0, 0.0, 0.0]])
    found = [sampled(logits, [{"temperature": t}] * 4) for t in (1e-3, 0.0)]
    found.append(sampled(logits, [{}, {"temperature": 0.001}, {"temperature": 1.0}, {}]))
    return found


def judge_nan_in_one_row_leaves_the_other_rows_alone(seed, got):
    for tokens in got:
        equal(tokens[1::2], [1, 0], "tokens of the rows without NaN")
        truth(all(0 <= t < 3 for t in tokens), "each token is in the vocabulary", tokens)


def probe_bfloat16_logits_are_drawn_from_as_their_float32_values(seed):
    rows = temperatures(seed) + mixed(seed)
    rounded = [(torch.tensor(x).bfloat16().tolist(), params) for x, params in rows]
    return [counts(rows, torch.bfloat16), counts(rounded)]


def judge_bfloat16_logits_are_drawn_from_as_their_float32_values(seed, got):
    equal(got[0], got[1], "counts from bfloat16 logits and from the same numbers as float32")
    truth(sum(map(sum, got[0])) == 7 * N, "all draws are counted", got[0])


def probe_one_filter_for_all_rows_may_be_a_plain_number(seed):
    from minisgl.engine.sample import sample_impl

    logits = torch.tensor([some_logits(seed)] * N)
    grid = (torch.arange(N, dtype=torch.float64) + 0.5) / N
    tokens = sample_impl(logits, torch.ones(N), 3, 0.7, grid)
    return [str(tokens.dtype), tokens.bincount(minlength=8).tolist()]


def judge_one_filter_for_all_rows_may_be_a_plain_number(seed, got):
    equal(got[0], "torch.int64", "dtype of the tokens")
    check([(some_logits(seed), {"temperature": 1.0, "top_k": 3, "top_p": 0.7})], [got[1]])


def probe_without_given_draws_pytorch_s_generator_is_used(seed):
    from minisgl.engine.sample import sample_impl

    logits = torch.tensor([some_logits(seed)] * 4000)
    torch.manual_seed(seed)
    first = sample_impl(logits, torch.ones(4000), None, None)
    second = sample_impl(logits, torch.ones(4000), None, None)
    return [first.bincount(minlength=8).tolist(), int((first == second).sum())]


def judge_without_given_draws_pytorch_s_generator_is_used(seed, got):
    want = 4000 * distribution(some_logits(seed), 1.0)
    off = float((((np.array(got[0]) - want) ** 2) / want).sum())
    truth(off < 30, f"chi-square with 7 degrees of freedom is {off:.1f}, below 30", got[0])
    truth(got[1] < 3000, "a second call draws anew", got[1])


def probe_parameters_are_prepared_as_one_entry_per_request(seed):
    from minisgl.engine.sample import Sampler

    sampler = Sampler(torch.device("cpu"), 100)
    warm = [{"temperature": 0.5, "top_k": 7}, {"top_k": 9}, {"temperature": 2.0, "top_k": 200}]
    args = sampler.prepare(requests(warm))
    plain = sampler.prepare(requests([{"temperature": 1.0}, {}]))
    greedy = sampler.prepare(requests([{}, {"temperature": 3.0, "top_k": 1}]))
    return {
        "temperatures": [args.temperatures.tolist(), str(args.temperatures.dtype)],
        "top_k": args.top_k.tolist(),
        "filters that nobody uses": [args.top_p, plain.top_k, plain.top_p],
        "draws": [len(args.uniforms), all(0.0 <= u < 1.0 for u in args.uniforms)],
        "greedy": [greedy.temperatures, greedy.top_k, greedy.top_p, greedy.uniforms],
    }


def judge_parameters_are_prepared_as_one_entry_per_request(seed, got):
    want = {
        "temperatures": [[0.5, 0.0, 2.0], "torch.float32"],
        "top_k": [7, 9, 100],
        "filters that nobody uses": [None, None, None],
        "draws": [3, True],
        "greedy": [None, None, None, None],
    }
    equal(got, want, "what is prepared")


def probe_parameters_go_to_the_device_that_was_asked_for(seed):
    from minisgl.engine.sample import make_device_tensor

    whole = make_device_tensor([1, 2], torch.int64, torch.device("cpu"))
    parts = make_device_tensor([0.5], torch.float32, torch.device("meta"))
    return [whole.tolist(), str(whole.dtype), str(parts.dtype), str(parts.device)]


def judge_parameters_go_to_the_device_that_was_asked_for(seed, got):
    equal(got, [[1, 2], "torch.int64", "torch.float32", "meta"], "data, dtypes and device")
