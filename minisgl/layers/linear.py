"""Linear ops: one product for one or several projections, cut along rows or columns by rank."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from minisgl.distributed.info import get_tp_info
from minisgl.utils import div_even

from .base import BaseOP

_MKLDNN_OPS = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")


def pack_weight(weight: torch.Tensor) -> torch.Tensor:
    """Return weight: (out, in) reordered for oneDNN's CPU kernels, or as it is elsewhere.

    A weight that is packed already stays as it is. The reordered tensor takes the same memory and
    is good for nothing but linear.
    """
    if weight.is_mkldnn or weight.device.type != "cpu" or not _can_pack(weight.dtype):
        return weight
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    return packed


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether oneDNN is there and computes in dtype on this CPU."""
    ops, is_there = torch.ops.mkldnn, torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (is_there and all(hasattr(ops, name) for name in _MKLDNN_OPS)):
        return False
    return dtype == torch.float32 or (
        dtype == torch.bfloat16 and bool(ops._is_mkldnn_bf16_supported())
    )


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x @ weight.T + bias; every linear op of the engine computes through this function.

    x: (tokens, in), weight: (out, in) plain or from pack_weight, bias: (out,).
    Result: (tokens, out).
    """
    if weight.is_mkldnn:
        y: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return y
    return F.linear(x, weight, bias)


class _LinearTPImpl(BaseOP):
    """A linear op of which this rank holds local_osize x local_isize of the full matrix.

    weight: (local_osize, local_isize); bias: (local_osize,), or None without has_bias.
    """

    def __init__(
        self,
        full_isize: int,
        full_osize: int,
        local_isize: int,
        local_osize: int,
        has_bias: bool,
    ) -> None:
        self.full_input_size = full_isize
        self.full_output_size = full_osize
        self.weight = torch.empty(local_osize, local_isize)
        self.bias = torch.empty(local_osize) if has_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (tokens, local_isize) -> (tokens, local_osize)"""
        return linear(x, self.weight, self.bias)

    def process_weights_after_loading(self) -> None:
        """Pack the weight, whose plain form is dropped."""
        self.weight = pack_weight(self.weight)


class LinearReplicated(_LinearTPImpl):
    """A linear op that every rank holds whole."""

    def __init__(self, input_size: int, output_size: int, has_bias: bool) -> None:
        super().__init__(input_size, output_size, input_size, output_size, has_bias)


class LinearColParallelMerged(_LinearTPImpl):
    """Several projections of one input as one product; each rank computes a part of each output.

    Result: (tokens, sum of the rank's parts), in the order of output_sizes.
    """

    def __init__(self, input_size: int, output_sizes: list[int], has_bias: bool) -> None:
        tp_size = get_tp_info().size
        local_osize = sum(div_even(size, tp_size) for size in output_sizes)
        super().__init__(input_size, sum(output_sizes), input_size, local_osize, has_bias)


class LinearQKVMerged(_LinearTPImpl):
    """The projections to q, k and v as one product; each rank computes its share of the heads.

    Result: (tokens, (qo_heads + 2 * kv_heads) * head_dim) with q first, then k, then v.
    """

    def __init__(
        self,
        hidden_size: int,
        head_dim: int,
        num_qo_heads: int,
        num_kv_heads: int,
        has_bias: bool,
    ) -> None:
        tp_size = get_tp_info().size
        local_qo_heads = div_even(num_qo_heads, tp_size)
        local_kv_heads = div_even(num_kv_heads, tp_size, allow_replicate=True)
        super().__init__(
            full_isize=hidden_size,
            full_osize=(num_qo_heads + 2 * num_kv_heads) * head_dim,
            local_isize=hidden_size,
            local_osize=(local_qo_heads + 2 * local_kv_heads) * head_dim,
            has_bias=has_bias,
        )


class LinearOProj(_LinearTPImpl):
    """The projection of all heads' outputs back to the hidden size; each rank takes its heads."""

    def __init__(self, input_size: int, output_size: int, has_bias: bool) -> None:
        local_isize = div_even(input_size, get_tp_info().size)
        super().__init__(input_size, output_size, local_isize, output_size, has_bias)


class LinearRowParallel(_LinearTPImpl):
    """A projection of which each rank takes a part of the input, such as an MLP's second one."""

    def __init__(self, input_size: int, output_size: int, has_bias: bool) -> None:
        local_isize = div_even(input_size, get_tp_info().size)
        super().__init__(input_size, output_size, local_isize, output_size, has_bias)
