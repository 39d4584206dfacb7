"""The KV pool of ordinary multi-head attention."""

from __future__ import annotations

import torch

from minisgl.distributed.info import get_tp_info
from minisgl.utils import div_even

from .base import BaseKVCachePool


class MHAKVCache(BaseKVCachePool):
    """One tensor for all: (K or V, layer, page, place in the page, kv head, channel)."""

    def __init__(
        self,
        num_kv_heads: int,
        num_layers: int,
        head_dim: int,
        num_pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        local_kv_heads = div_even(num_kv_heads, get_tp_info().size, allow_replicate=True)
        shape = (2, num_layers, num_pages, page_size, local_kv_heads, head_dim)
        self._kv = torch.empty(shape, dtype=dtype, device=device)
        by_slot = self._kv.flatten(2, 3)
        self._k_slots, self._v_slots = by_slot[0].unbind(), by_slot[1].unbind()

    def k_cache(self, index: int) -> torch.Tensor:
        return self._kv[0, index]

    def v_cache(self, index: int) -> torch.Tensor:
        return self._kv[1, index]

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        self._k_slots[layer_id][out_loc] = k
        self._v_slots[layer_id][out_loc] = v

    @property
    def device(self) -> torch.device:
        return self._kv.device

    @property
    def dtype(self) -> torch.dtype:
        return self._kv.dtype

    @property
    def num_layers(self) -> int:
        return self._kv.shape[1]
