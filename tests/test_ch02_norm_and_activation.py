"""Chapter 02: RMSNorm, the residual and the gated activations against float64 formulas."""

from __future__ import annotations

import math

import numpy as np
import torch

from pairs import close, draw, equal, public_bug, truth

SIZE, EPS = 8, 0.05
FLOAT32 = 5e-7
"""Of a value: what about eight roundings to float32 come to; a drawn value may be over 6."""


def norm(x, weight=1.0, eps=EPS):
    x = np.asarray(x, dtype=np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def make_norm(seed, fused=False):
    """Probe side: a norm with drawn weights."""
    from minisgl.layers import RMSNorm, RMSNormFused

    op = (RMSNormFused if fused else RMSNorm)(SIZE, EPS)
    op.load_state_dict({"weight": torch.tensor(draw(seed + 9, SIZE))})
    return op


def probe_rmsnorm_follows_its_formula_over_the_last_dimension(seed):
    op = make_norm(seed)
    shapes = ((3, SIZE), (2, 3, SIZE), (0, SIZE))
    return [op.forward(torch.tensor(draw(seed, *shape))).tolist() for shape in shapes]


def judge_rmsnorm_follows_its_formula_over_the_last_dimension(seed, got):
    weight = draw(seed + 9, SIZE)
    close(got[0], norm(draw(seed, 3, SIZE), weight), 1e-6, "rows", FLOAT32)
    close(got[1], norm(draw(seed, 2, 3, SIZE), weight), 1e-6, "rows of heads", FLOAT32)
    equal(got[2], [], "no rows")


def probe_eps_holds_small_inputs_back(seed):
    from minisgl.layers import RMSNorm, RMSNormFused

    result = []
    for eps in (1e-6, 1e-2):
        for kind in (RMSNorm, RMSNormFused):
            op = kind(SIZE, eps)
            op.load_state_dict({"weight": torch.ones(SIZE)})
            y = op.forward(torch.tensor(draw(seed, 2, SIZE)) * 1e-2)
            result.append((y if kind is RMSNorm else y[0]).tolist())
    return result


def judge_eps_holds_small_inputs_back(seed, got):
    x = draw(seed, 2, SIZE).astype(np.float64) * 1e-2
    for i, (eps, kind) in enumerate((e, k) for e in (1e-6, 1e-2) for k in ("alone", "fused")):
        close(got[i], norm(x, eps=eps), 1e-5, f"normalized with eps {eps}, {kind}")


def probe_rmsnorm_in_place_changes_a_view_of_a_wider_tensor(seed):
    op = make_norm(seed)
    wide = torch.tensor(draw(seed, 3, 4, SIZE))
    returned = op.forward_inplace(wide[:, 1:3])
    return {"wide": wide.tolist(), "returned": returned}


def judge_rmsnorm_in_place_changes_a_view_of_a_wider_tensor(seed, got):
    want = draw(seed, 3, 4, SIZE).astype(np.float64)
    want[:, 1:3] = norm(want[:, 1:3], draw(seed + 9, SIZE))
    close(got["wide"], want, 1e-6, "heads 1 and 2 normalized, the others as they were", FLOAT32)
    equal(got["returned"], None, "what it returns")


def probe_the_fused_norm_normalizes_the_sum_and_hands_the_sum_on(seed):
    op = make_norm(seed, fused=True)
    first, second, third = (torch.tensor(draw(seed + i, 3, SIZE)) for i in range(3))
    normed, residual = op.forward(first)
    steps = [[normed.tolist(), residual.tolist()]]
    for x in (second, third):
        normed, residual = op.forward(x, residual)
        steps.append([normed.tolist(), residual.tolist()])
    return steps


def judge_the_fused_norm_normalizes_the_sum_and_hands_the_sum_on(seed, got):
    total = np.zeros((3, SIZE))
    for i, (normed, residual) in enumerate(got):
        total = total + draw(seed + i, 3, SIZE).astype(np.float64)
        close(residual, total, 1e-6, f"residual after block {i}", FLOAT32)
        close(
            normed, norm(total, draw(seed + 9, SIZE)), 1e-6, f"normalized after block {i}", FLOAT32
        )


@public_bug("B06")
def probe_rmsnorm_leaves_its_float32_input_alone(seed):
    from minisgl.layers import RMSNorm

    op = RMSNorm(4, 1e-6)
    op.load_state_dict({"weight": torch.ones(4)})
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    result = op.forward(x).tolist()
    return {"x": x.tolist(), "result": result}


def judge_rmsnorm_leaves_its_float32_input_alone(seed, got):
    equal(got["x"], [[1.0, 2.0, 3.0, 4.0]], "the input afterwards")
    close(got["result"], [[0.36515, 0.73030, 1.09545, 1.46059]], 1e-5, "normalized")


@public_bug("B06")
def probe_norms_share_no_memory_with_what_they_are_given(seed):
    from minisgl.layers import RMSNorm, RMSNormFused

    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        weight = torch.ones(SIZE, dtype=dtype)
        x, residual = (torch.tensor(draw(seed + i, 2, SIZE)).to(dtype) for i in range(2))
        given = (x, residual, weight)
        kept = [t.clone() for t in given]
        for name, kind, args in (
            ("alone", RMSNorm, (x,)),
            ("fused, first", RMSNormFused, (x,)),
            ("fused", RMSNormFused, (x, residual)),
        ):
            op = kind(SIZE, EPS)
            op.weight = weight
            results = op.forward(*args)
            results = [results] if kind is RMSNorm else list(results)
            for result in results:  # what the caller does to a result must reach nothing else
                result.fill_(7.0)
            same = [torch.equal(a, b) for a, b in zip(given, kept, strict=True)]
            apart = len({t.data_ptr() for t in results}) == len(results)
            kept_dtype = all(t.dtype == dtype for t in results)
            found[f"{name}, {dtype}"] = [same, apart, kept_dtype]
    return found


def judge_norms_share_no_memory_with_what_they_are_given(seed, got):
    equal(len(got), 6, "cases")
    for case, (same, apart, kept_dtype) in got.items():
        equal(same, [True] * 3, f"x, residual and weight unchanged, {case}")
        equal(apart, True, f"results apart from each other, {case}")
        equal(kept_dtype, True, f"results have the input's dtype, {case}")


def probe_in_bfloat16_the_mean_square_is_taken_in_float32(seed):
    from minisgl.layers import RMSNorm, RMSNormFused

    x, results = torch.tensor(draw(seed, 32, 16)).bfloat16(), []
    for kind in (RMSNorm, RMSNormFused):
        op = kind(16, EPS)
        op.weight = torch.ones(16, dtype=torch.bfloat16)
        result = op.forward(x)
        results.append((result if kind is RMSNorm else result[0]).float().tolist())
    return results


def judge_in_bfloat16_the_mean_square_is_taken_in_float32(seed, got):
    x = torch.tensor(draw(seed, 32, 16)).bfloat16().double().numpy()
    want = torch.tensor(norm(x)).bfloat16().double().numpy()
    for name, result in zip(("alone", "fused"), got, strict=True):
        off = int((np.array(result) != want).sum())
        truth(off <= 2, f"at most 2 of 512 values are not the nearest bfloat16, {name}", off)


def gated(x, act):
    gate, up = np.split(np.asarray(x, dtype=np.float64), 2, axis=-1)
    return act(gate) * up


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def probe_activations_gate_the_second_half_by_the_first(seed):
    from minisgl.layers import gelu_and_mul, silu_and_mul

    x = torch.tensor(draw(seed, 3, 10)) * 3
    out = torch.full((3, 5), 9.0)
    return {
        "silu": silu_and_mul(x).tolist(),
        "gelu": gelu_and_mul(x).tolist(),
        "is out": [silu_and_mul(x, out) is out, out.tolist(), gelu_and_mul(x, out) is out],
        "gelu in out": out.tolist(),
    }


def judge_activations_gate_the_second_half_by_the_first(seed, got):
    x = draw(seed, 3, 10).astype(np.float64) * 3
    close(got["silu"], gated(x, silu), 1e-5, "silu(gate) * up")
    close(got["gelu"], gated(x, gelu), 1e-5, "gelu(gate) * up")
    equal([got["is out"][0], got["is out"][2]], [True, True], "whether out is returned")
    close(got["is out"][1], gated(x, silu), 1e-5, "silu in out")
    close(got["gelu in out"], gated(x, gelu), 1e-5, "gelu in out")


@public_bug("B06")
def probe_activations_leave_their_input_alone(seed):
    from minisgl.layers import gelu_and_mul, silu_and_mul

    found = []
    for dtype in (torch.float32, torch.bfloat16):
        for act in (silu_and_mul, gelu_and_mul):
            x = torch.tensor(draw(seed, 3, 10)).to(dtype)
            kept = x.clone()
            result = act(x)
            found.append([result.dtype == dtype, torch.equal(x, kept)])
            result.fill_(9.0)
            found[-1].append(torch.equal(x, kept))
    return found


def judge_activations_leave_their_input_alone(seed, got):
    equal(got, [[True] * 3] * 4, "dtype kept, input unchanged, and unchanged by the result's fate")


def probe_in_bfloat16_the_norm_is_rounded_before_the_weight(seed):
    from minisgl.layers import RMSNorm

    norm = RMSNorm(64, 1e-5)
    norm.weight = torch.from_numpy(1 + draw(seed + 1, 64)).bfloat16()
    return norm.forward(torch.from_numpy(draw(seed, 8, 64)).bfloat16()).tolist()


def judge_in_bfloat16_the_norm_is_rounded_before_the_weight(seed, got):
    x = torch.from_numpy(draw(seed, 8, 64)).bfloat16().double()
    weight = torch.from_numpy(1 + draw(seed + 1, 64)).bfloat16()
    y = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    before, after = y.bfloat16() * weight, (y * weight.double()).bfloat16()
    differ = float((before != after).double().mean())
    equals = float((torch.tensor(got) == before.float()).double().mean())
    truth(differ > 0.05, "the two orders differ in over 5% of the values", differ)
    truth(equals > 0.98, "over 98% of the values are those that are rounded before", equals)
