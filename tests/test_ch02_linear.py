"""Chapter 02: linear ops, packed and plain, whole and cut by rank."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch

from pairs import close, draw, equal, error_of, public_bug, refused

TOKENS, IN, OUT = 3, 10, 7


def inputs(seed):
    """x, weight and bias, the same on both sides."""
    return draw(seed, TOKENS, IN), draw(seed + 1, OUT, IN), draw(seed + 2, OUT)


def product(x, weight, bias=0.0):
    return x.astype(np.float64) @ weight.T.astype(np.float64) + bias


def probe_a_linear_op_gives_the_same_product_packed_and_plain(seed):
    from minisgl.layers.linear import linear, pack_weight

    x, weight, bias = map(torch.tensor, inputs(seed))
    results = {}
    for form, w in (("plain", weight), ("packed", pack_weight(weight))):
        results[form] = linear(x, w, bias).tolist()
        results[f"{form}, no bias"] = linear(x, w).tolist()
        results[f"{form}, one token"] = linear(x[:1], w, bias).tolist()
        results[f"{form}, no token"] = list(linear(x[:0], w, bias).shape)
    return results


def judge_a_linear_op_gives_the_same_product_packed_and_plain(seed, got):
    x, weight, bias = inputs(seed)
    for form in ("plain", "packed"):
        close(got[form], product(x, weight, bias), 1e-5, form)
        close(got[f"{form}, no bias"], product(x, weight), 1e-5, f"{form}, no bias")
        close(got[f"{form}, one token"], product(x[:1], weight, bias), 1e-5, f"{form}, one token")
        equal(got[f"{form}, no token"], [0, OUT], f"shape, {form}, no token")


def probe_strided_inputs_are_multiplied_as_they_are_seen(seed):
    from minisgl.layers.linear import linear, pack_weight

    x, weight, _ = map(torch.tensor, inputs(seed))
    wide = torch.zeros(TOKENS, 2 * IN)
    wide[:, ::2] = x
    return linear(wide[:, ::2], pack_weight(weight)).tolist()


def judge_strided_inputs_are_multiplied_as_they_are_seen(seed, got):
    x, weight, _ = inputs(seed)
    close(got, product(x, weight), 1e-5, "product of every other column")


def probe_weights_are_packed_where_onednn_has_the_kernel(seed):
    from minisgl.layers.linear import pack_weight

    def ops(bf16):
        return SimpleNamespace(
            _reorder_linear_weight=lambda weight: weight + 100,
            _linear_pointwise=None,
            _is_mkldnn_bf16_supported=lambda: bf16,
        )

    machines = {
        "new": (True, ops(bf16=True)),
        "no bfloat16": (True, ops(bf16=False)),
        "old torch": (True, SimpleNamespace()),
        "no onednn": (False, ops(bf16=True)),
    }
    dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    packed = {}
    for name, (available, stand_in) in machines.items():
        with (
            patch.object(torch.backends.mkldnn, "is_available", lambda a=available: a),
            patch.object(torch.ops, "mkldnn", stand_in),
        ):
            weights = [torch.zeros(1, 1, dtype=dtype) for dtype in dtypes]
            packed[name] = [pack_weight(w).item() for w in weights]
            packed[f"{name}, elsewhere"] = pack_weight(torch.zeros(1, device="meta")).is_meta
    same = torch.zeros(2, 2, dtype=torch.float64)
    return {"packed": packed, "same": pack_weight(same) is same}


def judge_weights_are_packed_where_onednn_has_the_kernel(seed, got):
    want = {
        "new": [100.0, 100.0, 0.0, 0.0],
        "no bfloat16": [100.0, 0.0, 0.0, 0.0],
        "old torch": [0.0] * 4,
        "no onednn": [0.0] * 4,
    }
    for name, values in want.items():
        dtypes = "float32, bfloat16, float16, float64"
        equal(got["packed"][name], values, f"100 where packed, on {name}: {dtypes}")
        equal(got["packed"][f"{name}, elsewhere"], True, f"another device is left alone, {name}")
    equal(got["same"], True, "whether what isn't packed is the same tensor")


KINDS = {
    "LinearReplicated": ((IN, OUT), (OUT, IN)),
    "LinearColParallelMerged": ((IN, [4, 3]), (OUT, IN)),
    "LinearQKVMerged": ((IN, 2, 4, 2), (16, IN)),
    "LinearOProj": ((IN, OUT), (OUT, IN)),
    "LinearRowParallel": ((IN, OUT), (OUT, IN)),
}


def probe_every_kind_of_linear_op_multiplies_by_its_weight_and_adds_its_bias(seed):
    from minisgl import layers

    found = {}
    for name, (args, shape) in KINDS.items():
        for has_bias in (False, True):
            op = getattr(layers, name)(*args, has_bias=has_bias)
            shapes = {key: list(w.shape) for key, w in op.state_dict().items()}
            weights = {"weight": draw(seed, *shape), "bias": draw(seed + 1, shape[0])}
            op.load_state_dict({key: torch.tensor(weights[key]) for key in shapes})
            x = torch.tensor(draw(seed + 2, TOKENS, IN))
            results = [op.forward(x).tolist()]
            op.process_weights_after_loading()
            results.append(op.forward(x).tolist())
            sizes = [op.full_input_size, op.full_output_size]
            names = list(op.state_dict())
            found[f"{name} {has_bias}"] = [shapes, sizes, names, results]
    return found


def judge_every_kind_of_linear_op_multiplies_by_its_weight_and_adds_its_bias(seed, got):
    x = draw(seed + 2, TOKENS, IN)
    for name, (_, (rows, columns)) in KINDS.items():
        weight, bias = draw(seed, rows, columns), draw(seed + 1, rows)
        for has_bias in (False, True):
            shapes, sizes, names, results = got[f"{name} {has_bias}"]
            what = f"{name}, {'with' if has_bias else 'without'} bias"
            want = {"weight": [rows, columns], **({"bias": [rows]} if has_bias else {})}
            equal(shapes, want, f"weights of {what}")
            equal(sizes, [columns, rows], f"full sizes of {what}")
            equal(names, list(want), f"names of {what} after packing")
            for result, when in zip(results, ("before", "after"), strict=True):
                full = product(x, weight, bias if has_bias else 0.0)
                close(result, full, 1e-5, f"{what}, {when} packing")


def probe_packing_replaces_the_plain_weight(seed):
    from minisgl.layers import LinearOProj

    op = LinearOProj(IN, OUT, has_bias=False)
    op.load_state_dict({"weight": torch.tensor(draw(seed, OUT, IN))})
    with patch("minisgl.layers.linear.pack_weight", lambda weight: weight * 2):
        op.process_weights_after_loading()
    return op.weight.tolist()


def judge_packing_replaces_the_plain_weight(seed, got):
    close(got, 2 * draw(seed, OUT, IN), 0.0, "the weight, with doubling for packing")


def probe_an_op_may_be_packed_twice_and_loaded_again(seed):
    from minisgl.layers import LinearOProj

    x, results = torch.tensor(draw(seed, TOKENS, IN)), []
    op = LinearOProj(IN, OUT, has_bias=False)
    for i in (1, 2):
        op.load_state_dict({"weight": torch.tensor(draw(seed + i, OUT, IN))})
        results.append(op.forward(x).tolist())
        for _ in range(2):
            op.process_weights_after_loading()
            results.append(op.forward(x).tolist())
    return results


def judge_an_op_may_be_packed_twice_and_loaded_again(seed, got):
    for i, result in enumerate(got):
        weight = draw(seed + 1 + i // 3, OUT, IN)
        what = f"product, weights {i // 3}, packed {i % 3} times"
        close(result, product(draw(seed, TOKENS, IN), weight), 1e-5, what)


CUTS = (
    ("LinearReplicated", (6, 4), [4, 6], [4, 6]),
    ("LinearColParallelMerged", (6, [8, 4]), [6, 6], [3, 6]),
    ("LinearQKVMerged", (6, 2, 8, 4), [16, 6], [8, 6]),
    ("LinearQKVMerged", (6, 2, 8, 2), [12, 6], [8, 6]),
    ("LinearOProj", (16, 6), [6, 8], [6, 4]),
    ("LinearRowParallel", (8, 6), [6, 4], [6, 2]),
)


def probe_each_rank_holds_its_part_of_the_matrix(seed):
    from minisgl import layers
    from minisgl.distributed import info

    found = []
    for name, args, *_ in CUTS:
        for size in (2, 4):
            with patch.object(info, "_TP_INFO", info.DistributedInfo(1, size)):
                op = getattr(layers, name)(*args, has_bias=True)
            found.append([list(op.weight.shape), len(op.bias)])
    return found


def judge_each_rank_holds_its_part_of_the_matrix(seed, got):
    wanted = [shape for *_, two, four in CUTS for shape in (two, four)]
    for i, (found, want) in enumerate(zip(got, wanted, strict=True)):
        what = f"{CUTS[i // 2][0]}{CUTS[i // 2][1]} on one of {2 + 2 * (i % 2)} ranks"
        equal(found, [want, want[0]], f"weight and bias of {what}")


def probe_sizes_that_ranks_cannot_share_are_refused(seed):
    from minisgl import layers
    from minisgl.distributed import info

    with patch.object(info, "_TP_INFO", info.DistributedInfo(0, 2)):
        return [
            error_of(lambda: layers.LinearColParallelMerged(6, [4, 3], has_bias=False)),
            error_of(lambda: layers.LinearQKVMerged(6, 2, 9, 3, has_bias=False)),
            error_of(lambda: layers.LinearQKVMerged(6, 2, 8, 3, has_bias=False)),
            error_of(lambda: layers.LinearOProj(7, 6, has_bias=False)),
            error_of(lambda: layers.LinearRowParallel(5, 6, has_bias=False)),
        ]


def judge_sizes_that_ranks_cannot_share_are_refused(seed, got):
    for size, error in zip((3, 9, 3, 7, 5), got, strict=True):
        refused(error, f"size {size} on 2 ranks", str(size), "by 2", kind="AssertionError")


@public_bug("B06")
def probe_linear_leaves_its_inputs_alone_and_returns_new_memory(seed):
    from minisgl.layers.linear import linear, pack_weight

    found = []
    for dtype in (torch.float32, torch.bfloat16):
        x, weight, bias = (torch.tensor(a).to(dtype) for a in inputs(seed))
        kept = [t.clone() for t in (x, weight, bias)]
        for form in (weight, pack_weight(weight)):
            for added in (bias, None):
                linear(x, form, added).fill_(9.0)
                same = [torch.equal(a, b) for a, b in zip((x, weight, bias), kept, strict=True)]
                found.append(same)
    return found


def judge_linear_leaves_its_inputs_alone_and_returns_new_memory(seed, got):
    equal(got, [[True] * 3] * 8, "x, weight and bias unchanged: dtypes, packed, with a bias")
