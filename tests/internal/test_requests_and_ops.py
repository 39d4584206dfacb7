"""Properties of requests, small arithmetic, ops and their state dicts on random inputs."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minisgl.core import Req, SamplingParams
from minisgl.env import _PARSE_MEM_BYTES
from minisgl.layers import BaseOP, OPList, RMSNorm, RMSNormFused, get_rope
from minisgl.layers.linear import linear, pack_weight
from minisgl.utils import align_ceil, align_down, div_ceil

quickly = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@quickly
@given(st.integers(1, 20), st.integers(0, 19), st.integers(0, 12))
def test_a_request_computes_each_position_once(prompt: int, cached: int, output: int) -> None:
    cached = min(cached, prompt - 1)
    req = Req(torch.arange(prompt), 0, cached, output, 0, SamplingParams(), None)
    done, tokens = list(range(cached)), list(range(prompt))
    while req.can_decode:
        assert 0 <= req.cached_len < req.device_len <= req.max_device_len
        assert req.extend_len + req.cached_len == req.device_len == len(req.input_ids)
        done += range(req.cached_len, req.device_len)
        req.complete_one()
        req.append_host(torch.tensor([100 + len(tokens)]))
        tokens.append(100 + len(tokens))
    assert done == list(range(prompt + output - 1 if output else cached))
    assert req.input_ids.tolist() == tokens and len(tokens) == prompt + output


@quickly
@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_rounding_stays_within_one_part(a: int, b: int) -> None:
    assert 0 <= a - align_down(a, b) < b
    assert 0 <= align_ceil(a, b) - a < b
    assert align_down(a, b) % b == align_ceil(a, b) % b == 0
    assert div_ceil(a, b) * b == align_ceil(a, b)


@quickly
@given(st.integers(0, 2**40), st.sampled_from(("", "K", "M", "G")), st.booleans())
def test_a_size_means_its_number_times_its_unit(number: int, unit: str, has_b: bool) -> None:
    text = f"{number}{unit}{'B' if has_b else ''}"
    wanted = number << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
    assert _PARSE_MEM_BYTES(text) == _PARSE_MEM_BYTES(text.lower()) == wanted


@quickly
@given(seeds, st.integers(1, 5), st.integers(1, 40), st.floats(0.01, 1000))
def test_rmsnorm_without_eps_does_not_see_the_scale(
    seed: int, rows: int, size: int, scale: float
) -> None:
    op = RMSNorm(size, 0.0)
    op.weight = drawn(seed + 1, size)
    x = drawn(seed, rows, size) + 0.1
    torch.testing.assert_close(op.forward(x * scale), op.forward(x), rtol=1e-4, atol=1e-4)


@quickly
@given(seeds, st.integers(1, 6))
def test_the_residual_is_the_sum_of_all_that_went_in(seed: int, blocks: int) -> None:
    op, alone = RMSNormFused(8, 1e-3), RMSNorm(8, 1e-3)
    op.weight = alone.weight = drawn(seed, 8)
    inputs = [drawn(seed + 1 + i, 3, 8) for i in range(blocks)]
    residual = None
    for i, x in enumerate(inputs):
        normed, residual = op.forward(x, residual)
        total = torch.stack(inputs[: i + 1]).sum(0)
        torch.testing.assert_close(residual, total, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(normed, alone.forward(total), rtol=1e-4, atol=1e-4)


@quickly
@given(seeds, st.sampled_from(((8, 8), (8, 4), (6, 2))), st.integers(0, 400), st.integers(0, 99))
def test_rotation_keeps_lengths_and_sees_distances_only(
    seed: int, dims: tuple[int, int], shift: int, distance: int
) -> None:
    rope = get_rope(*dims, 512, 1234.0)
    q, k = drawn(seed, 1, 2, dims[0]), drawn(seed + 1, 1, 2, dims[0])

    def at(query: int, key: int) -> torch.Tensor:
        turned_q, _ = rope.forward(torch.tensor([query]), q, k)
        _, turned_k = rope.forward(torch.tensor([key]), q, k)
        torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1), rtol=1e-4, atol=1e-5)
        return (turned_q * turned_k).sum(-1)

    here, there = at(distance, 0), at(distance + shift, shift)
    torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-3)


@quickly
@given(seeds, st.integers(0, 6), st.integers(1, 33), st.integers(1, 33), st.booleans())
def test_packing_changes_no_product(
    seed: int, tokens: int, isize: int, osize: int, has_bias: bool
) -> None:
    x, weight = drawn(seed, tokens, isize), drawn(seed + 1, osize, isize)
    bias = drawn(seed + 2, osize) if has_bias else None
    packed = linear(x, pack_weight(weight), bias)
    torch.testing.assert_close(packed, linear(x, weight, bias), rtol=1e-4, atol=1e-4)


class Leaf(BaseOP):
    """One weight."""

    def __init__(self, size: int) -> None:
        self.weight = torch.empty(size)


trees = st.recursive(
    st.integers(1, 4).map(Leaf), lambda below: st.lists(below, max_size=4).map(OPList), max_leaves=9
)


@quickly
@given(trees, st.randoms())
def test_a_state_dict_in_any_order_loads_back(op: BaseOP, shuffler: object) -> None:
    names = list(op.state_dict())
    shuffler.shuffle(names)  # type: ignore[attr-defined]
    wanted = {n: drawn(i, *op.state_dict()[n].shape) for i, n in enumerate(names)}
    op.load_state_dict(dict(wanted))
    loaded = op.state_dict()
    assert len(loaded) == len(wanted) and all(loaded[name] is wanted[name] for name in wanted)
