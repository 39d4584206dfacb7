"""Puts the reader's rms_norm in the place of the chapter's, in every dtype."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import torch

from pairs import close, draw, equal, truth

ROWS, SIZE, EPS = 12, 576, 1e-6
DTYPES = ("float16", "bfloat16", "float32", "float64")


def planted(x, weight, eps):
    """The function that the reader starts from."""
    mean_square = x.pow(2).mean(-1, keepdim=True)
    wide = x.float()
    wide *= torch.rsqrt(mean_square.float() + eps)
    return (wide * weight).to(x.dtype)


def first_too_big():
    """Powers of two in a single channel, until the other channels come out as zero."""
    weight = torch.ones(8, dtype=torch.float16)
    for power in range(16):
        x = torch.ones(8, dtype=torch.float16)
        x[3] = 2.0**power
        if planted(x, weight, EPS)[3] == 0:
            return 2.0**power
    return None


def changed():
    """The dtypes in which the planted function changes its input."""
    found = []
    for name in DTYPES:
        dtype = getattr(torch, name)
        x = torch.arange(1, 9).to(dtype)
        planted(x, torch.ones(8, dtype=dtype), EPS)
        if not torch.equal(x, torch.arange(1, 9).to(dtype)):
            found.append(name)
    return found


def inputs(seed, name, scale=1.0):
    """x: (ROWS, SIZE) and a weight, both rounded to the dtype."""
    dtype = getattr(torch, name)
    x, weight = torch.tensor(draw(seed, ROWS, SIZE)), torch.tensor(draw(seed + 1, SIZE))
    return (x * scale).to(dtype), (weight + 2).to(dtype)


def exact(x, weight):
    """In float64, but rounded where the chapter rounds: before the weight, and after it."""
    wide = x.double().numpy()
    scale = 1 / np.sqrt((wide**2).mean(-1, keepdims=True) + EPS)
    return torch.tensor(wide * scale).to(x.dtype) * weight


def normed(x, weight):
    """The chapter's op, with the reader's function inside."""
    from answer import rms_norm
    from minisgl.layers import RMSNorm, norm

    op = RMSNorm(SIZE, EPS)
    op.weight = weight
    with patch.object(norm, "_rms_norm", rms_norm):
        return op.forward(x)


def probe_the_first_number_that_is_too_big(seed):
    from answer import FIRST_TOO_BIG

    return FIRST_TOO_BIG


def judge_the_first_number_that_is_too_big(seed, got):
    truth(got == first_too_big(), "FIRST_TOO_BIG (it is the square that leaves the range)", got)


def probe_where_the_input_changes(seed):
    from answer import CHANGES_ITS_INPUT

    return CHANGES_ITS_INPUT


def judge_where_the_input_changes(seed, got):
    what = "CHANGES_ITS_INPUT (float() of a tensor makes a copy only where the dtype changes)"
    truth(isinstance(got, list) and sorted(got) == changed(), what, got)


def probe_large_numbers_in_float16(seed):
    return normed(*inputs(seed, "float16", 1000.0)).tolist()


def judge_large_numbers_in_float16(seed, got):
    want = exact(*inputs(seed, "float16", 1000.0)).tolist()
    what = "numbers around 1000 in float16 (each of them counts, and none of their squares fits)"
    for row, right in zip(got, want, strict=True):
        truth(np.allclose(row, right, rtol=4e-3, atol=1e-3), what, row[:6])


def probe_the_mean_in_bfloat16(seed):
    x, _ = inputs(seed, "bfloat16")
    return normed(x, torch.ones(SIZE, dtype=torch.bfloat16)).tolist()


def judge_the_mean_in_bfloat16(seed, got):
    x, _ = inputs(seed, "bfloat16")
    want = exact(x, torch.ones(SIZE, dtype=torch.bfloat16))
    what = "channels that are exact with a weight of 1 in bfloat16 (8 bits are too few for a mean)"
    truth(share_equal(got, want) > 0.995, what, share_equal(got, want))


def probe_the_residual_in_float32(seed):
    from answer import rms_norm
    from minisgl.layers import RMSNormFused, norm

    x, weight = inputs(seed, "float32")
    op = RMSNormFused(SIZE, EPS)
    op.load_state_dict({"weight": weight})
    with patch.object(norm, "_rms_norm", rms_norm):
        normalized, residual = op.forward(x, x + 1)
    return {"normalized": normalized.tolist(), "residual": residual.tolist()}


def judge_the_residual_in_float32(seed, got):
    x, weight = inputs(seed, "float32")
    what = "the residual after a norm in float32 (the next layer still needs the sum as it was)"
    truth(np.allclose(got["residual"], (x + (x + 1)).numpy()), what, got["residual"][0][:6])
    close(got["normalized"], exact(x + (x + 1), weight).tolist(), 1e-4, "normalized, float32")


def probe_where_it_is_rounded(seed):
    return {name: normed(*inputs(seed, name)).tolist() for name in ("bfloat16", "float16")}


def judge_where_it_is_rounded(seed, got):
    what = "channels that are exact, {} (the result is rounded before the weight, and then again)"
    for name, rows in got.items():
        same = share_equal(rows, exact(*inputs(seed, name)))
        truth(same > 0.995, what.format(name), same)
    equal(sorted(got), ["bfloat16", "float16"], "dtypes")


def share_equal(got, want):
    """Which part of all channels is the same number."""
    return float((np.array(got) == want.double().numpy()).mean())
