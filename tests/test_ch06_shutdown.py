"""Chapter 06: an engine that is shut down gives its memory back, and others go on."""

from __future__ import annotations

import gc
import weakref
from typing import Any
from unittest.mock import patch

import torch

from pairs import checkpoint, equal, error_of


def engine(model: str = "tiny-qwen3") -> Any:
    from minisgl.distributed.info import DistributedInfo
    from minisgl.engine import Engine, EngineConfig

    rank = DistributedInfo(0, 1)
    return Engine(
        EngineConfig(checkpoint(model), rank, torch.float32, max_running_req=2, num_page_override=8)
    )


def probe_shutdown_frees_weights_and_pool(seed):
    made, other = engine(), engine("tiny-qwen2")
    ctx = made.ctx
    held = [weakref.ref(x) for x in (made.model, ctx.kv_cache, ctx.page_table, ctx.attn_backend)]
    tensors = [weakref.ref(x) for x in made.model.state_dict().values()]
    before = [ref() is not None for ref in (*held, *tensors)]
    made.shutdown()
    gc.collect()
    gone = [ref() is None for ref in (*held, *tensors)]
    return [all(before), all(gone), error_of(lambda: made.model), other.ctx.kv_cache.num_layers]


def judge_shutdown_frees_weights_and_pool(seed, got):
    equal(got[:2], [True, True], "model, pool, page table, backend and weights: there, then gone")
    equal(got[2] and got[2]["kind"], "AttributeError", "what the engine says of its model")
    equal(got[3], 4, "layers of another engine's pool, which stays")


def probe_a_second_shutdown_changes_nothing(seed):
    made = engine()
    return [error_of(made.shutdown), error_of(made.shutdown)]


def judge_a_second_shutdown_changes_nothing(seed, got):
    equal(got, [None, None], "errors of two shutdowns")


def probe_shutdown_waits_for_the_device_before_it_frees_anything(seed):
    made, seen = engine(), []
    waits = "minisgl.engine.engine.synchronize"
    with patch(waits, lambda device: seen.append([device.type, hasattr(made, "model")])):
        made.shutdown()
    return [seen, made.device.type]


def judge_shutdown_waits_for_the_device_before_it_frees_anything(seed, got):
    equal(got[0], [[got[1], True]], "the device that is waited for, and whether the model is there")
