"""Chapter 06: what the engine's settings mean, and how much fits into memory."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from typing import Any
from unittest import mock

import torch

from pairs import checkpoint, equal, error_of, public_bug, refused, truth

TOKEN_BYTES = 2 * 4 * 4 * 64 * 4  # K and V, layers, kv heads, head_dim, float32: of tiny-qwen3


def config(**settings: Any) -> Any:
    from minisgl.distributed.info import DistributedInfo
    from minisgl.engine import EngineConfig

    fixed = {"tp_info": DistributedInfo(0, 1), "dtype": torch.float32, "max_running_req": 3}
    folder = settings.pop("model_path", None) or checkpoint("tiny-qwen3")
    return EngineConfig(folder, **{**fixed, **settings})


def engine(**settings: Any) -> Any:
    from minisgl.engine import Engine

    return Engine(config(**settings))


def prefilled(made: Any) -> torch.Tensor:
    """Logits of a prompt of three tokens on a new engine: (1, vocab)"""
    from minisgl.core import Batch, Req, SamplingParams

    batch = Batch([Req(torch.zeros(3).int(), 0, 0, 1, 0, SamplingParams(), None)], "prefill")
    batch.input_ids = torch.tensor([5, 6, 7], device=made.device)
    made.ctx.page_table[0, :3] = batch.out_loc = batch.positions = torch.arange(3).to(made.device)
    made.ctx.attn_backend.prepare_metadata(batch)
    noted = []
    plain = made.sampler.sample
    with mock.patch.object(made.sampler, "sample", lambda x, a: noted.append(x) or plain(x, a)):
        made.forward_batch(batch, made.sampler.prepare(batch))
    return noted[0]


def limits(made: Any) -> list[int]:
    """Pages, slots of the pool, tokens a request may have, and the page table's shape."""
    pool = made.ctx.kv_cache.k_cache(0).shape
    return [made.num_pages, pool[0] * pool[1], made.max_seq_len, *made.ctx.page_table.shape]


@public_bug("B50")
def probe_a_request_is_limited_to_the_pool_and_only_the_table_is_rounded_up(seed):
    return [
        limits(engine(num_page_override=40)),
        limits(engine(num_page_override=10, page_size=4)),
        limits(engine(num_page_override=40, max_seq_len_override=100)),
    ]


def judge_a_request_is_limited_to_the_pool_and_only_the_table_is_rounded_up(seed, got):
    what = "pages, slots, tokens a request may have, page table"
    equal(got[0], [40, 40, 40, 3, 64], f"{what} for 40 pages of 1")
    equal(got[1], [10, 40, 40, 3, 64], f"{what} for 10 pages of 4")
    equal(got[2], [40, 40, 40, 3, 64], f"{what} for 40 pages, when 100 tokens are asked for")


@public_bug("B50")
def probe_a_request_is_limited_by_the_model_or_the_override(seed):
    return [
        limits(engine(num_page_override=40, max_seq_len_override=20)),
        limits(engine(num_page_override=40, max_seq_len_override=32)),
        limits(engine(num_page_override=2000)),
    ]


def judge_a_request_is_limited_by_the_model_or_the_override(seed, got):
    equal(got[0], [40, 40, 20, 3, 32], "limits with an override of 20")
    equal(got[1], [40, 40, 32, 3, 32], "limits with an override of 32")
    equal(got[2], [2000, 2000, 1024, 3, 1024], "limits by the model's 1024 positions")


def with_memory(
    start: int, after: int, cap: int | None = None, ranks: int = 1, **settings: Any
) -> Any:
    """An engine's page count where `start` bytes are free at first and `after` from then on.

    cap: the most that the pool may take of a CPU's memory; the engine is then on the CPU.
    ranks: how many share the kv heads.
    """
    from minisgl.distributed.info import DistributedInfo
    from minisgl.engine import engine as module

    answers = iter([start])
    place = (lambda: torch.device("cpu")) if cap else module.default_device
    with (
        mock.patch.object(module, "free_memory", lambda device: next(answers, after)),
        mock.patch.object(module, "CPU_POOL_BYTES", cap or module.CPU_POOL_BYTES),
        mock.patch.object(module, "default_device", place),
        mock.patch.object(module, "get_tp_info", lambda: DistributedInfo(0, ranks)),
    ):
        return engine(**settings).num_pages


def probe_the_pool_takes_its_share_of_the_memory_that_the_weights_left(seed):
    start, after = 1000 * TOKEN_BYTES, 900 * TOKEN_BYTES
    return {
        "by default": with_memory(start, after),
        "half": with_memory(start, after, memory_ratio=0.5),
        "pages of 16": with_memory(start, after, memory_ratio=0.5, page_size=16),
        "bfloat16": with_memory(start, after, memory_ratio=0.5, dtype=torch.bfloat16),
        "more is free": with_memory(start, start + 3 * TOKEN_BYTES, memory_ratio=0.5),
        "the cap of a CPU": with_memory(start, after, cap=70 * TOKEN_BYTES),
        "two ranks a kv head": with_memory(start, after, memory_ratio=0.5, ranks=8),
        "an override": with_memory(start, after, memory_ratio=0.5, num_page_override=7),
    }


def judge_the_pool_takes_its_share_of_the_memory_that_the_weights_left(seed, got):
    want = {
        "by default": 900 - 100,
        "half": 500 - 100,
        "pages of 16": 400 // 16,
        "bfloat16": 2 * 400,
        "more is free": 500,
        "the cap of a CPU": 70,
        "two ranks a kv head": 4 * 400,
        "an override": 7,
    }
    equal(got, want, "number of pages")


def probe_an_engine_without_memory_for_a_page_says_so(seed):
    start = 1000 * TOKEN_BYTES
    return [
        error_of(lambda: with_memory(start, 90 * TOKEN_BYTES)),
        error_of(lambda: with_memory(start, 100 * TOKEN_BYTES)),
        with_memory(start, 101 * TOKEN_BYTES),
        error_of(lambda: with_memory(start, 101 * TOKEN_BYTES, page_size=2)),
    ]


def judge_an_engine_without_memory_for_a_page_says_so(seed, got):
    taken, start = 910 * TOKEN_BYTES, 1000 * TOKEN_BYTES
    words = ("no memory is left for the KV pool", f"{taken} of {start} bytes", "memory_ratio")
    refused(got[0], "weights that take more than their share", *words, kind="RuntimeError")
    refused(got[1], "weights that leave nothing", "no memory is left", kind="RuntimeError")
    equal(got[2], 1, "pages where one is left")
    refused(got[3], "half a page", "no memory is left", kind="RuntimeError")


def probe_dummy_weights_need_no_weight_files(seed):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(checkpoint("tiny-qwen3"), "config.json"), folder)
        made = engine(model_path=folder, use_dummy_weight=True, num_page_override=8)
        missing = error_of(lambda: engine(model_path=folder, num_page_override=8))
    logits = prefilled(made)
    real = prefilled(engine(num_page_override=8))
    embedding = made.model.state_dict()["model.embed_tokens.weight"]
    spread = [logits.isfinite().all().item(), logits.std().item() > 0, embedding.std().item()]
    return [spread, list(logits.shape), torch.equal(logits, real), missing]


def judge_dummy_weights_need_no_weight_files(seed, got):
    (finite, varied, deviation), shape, as_real, missing = got
    equal([finite, varied, as_real], [True, True, False], "finite, varied, and as with real ones")
    truth(0.018 < deviation < 0.022, "the weights' standard deviation is 0.02", deviation)
    equal(shape, [1, 1031], "shape of the logits")
    refused(missing, "the same folder without dummy weights", ".safetensors")


def probe_weights_are_brought_into_the_engine_s_dtype(seed):
    made = engine(dtype=torch.bfloat16, num_page_override=8)
    logits = prefilled(made)
    kinds = {str(x.dtype) for x in made.model.state_dict().values()}
    return [sorted(kinds), str(logits.dtype), str(made.ctx.kv_cache.dtype), str(made.dtype)]


def judge_weights_are_brought_into_the_engine_s_dtype(seed, got):
    equal(got, [["torch.bfloat16"], *["torch.bfloat16"] * 3], "dtypes of weights, logits and pool")


def probe_the_backend_is_the_one_that_was_asked_for(seed):
    names = ("auto", "torch", "torch,torch")
    made = [engine(attention_backend=name, num_page_override=8) for name in names]
    wrong = error_of(lambda: engine(attention_backend="nope", num_page_override=8))
    return [[type(x.ctx.attn_backend).__name__ for x in made], wrong]


def judge_the_backend_is_the_one_that_was_asked_for(seed, got):
    equal(got[0], ["TorchAttentionBackend"] * 2 + ["HybridBackend"], "backends of the engines")
    refused(got[1], "an unknown backend", "'nope'", "choose one of: torch", kind="ValueError")


def probe_a_new_engine_has_empty_tables_and_says_what_it_holds(seed):
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("minisgl.engine.engine")
    logger.addHandler(handler)
    made = engine(num_page_override=10, page_size=4)
    logger.removeHandler(handler)
    table, pool = made.ctx.page_table, made.ctx.kv_cache
    facts = [made.ctx.page_size, str(table.dtype), int(table.abs().sum()), pool.num_layers]
    facts.append(made.tp_cpu_group)
    return [facts, made.sampler.vocab_size, str(made.device), str(made.sampler.device), lines]


def judge_a_new_engine_has_empty_tables_and_says_what_it_holds(seed, got):
    facts, vocab_size, device, sampler_device, lines = got
    equal(facts[:4], [4, "torch.int32", 0, 4], "page size, table's dtype and sum, pool's layers")
    equal(facts[4], None, "the group of ranks, of which there is one")
    equal([vocab_size, sampler_device], [1031, device], "the sampler's vocabulary and device")
    equal(len(lines), 1, "number of log lines")
    for word in ("Qwen3ForCausalLM", "10 pages of 4", "40 tokens"):
        truth(word in lines[0], f"the log line says {word!r}", lines[0])


def probe_the_checkpoint_s_config_is_read_once(seed):
    made = config()
    same = [made.hf_config is made.hf_config, made.model_config is made.model_config]
    model = made.model_config
    return [same, made.hf_config.model_type, [model.num_layers, model.head_dim, model.vocab_size],
            made.max_seq_len, config(max_seq_len_override=99).max_seq_len]  # fmt: skip


def judge_the_checkpoint_s_config_is_read_once(seed, got):
    equal(got[0], [True, True], "the same objects at a second look")
    equal(got[1], "qwen3", "model type")
    equal(got[2], [4, 64, 1031], "layers, head_dim and vocabulary")
    equal(got[3:], [1024, 99], "tokens a request may have: the model's positions, or the override")


def probe_settings_have_defaults_and_cant_be_changed(seed):
    made = config()
    names = ("attention_backend", "page_size", "memory_ratio", "use_dummy_weight")
    change = error_of(lambda: setattr(made, "page_size", 2))
    most = type(made)(made.model_path, made.tp_info, made.dtype).max_running_req
    return [[getattr(made, name) for name in names], change, most]


def judge_settings_have_defaults_and_cant_be_changed(seed, got):
    equal(got[0], ["auto", 1, 0.9, False], "backend, page size, memory ratio, dummy weights")
    equal(got[2], 256, "requests at once")
    refused(got[1], "a change of page_size", "page_size", kind="FrozenInstanceError")


def probe_a_length_beyond_the_model_s_positions_is_refused_before_anything_is_loaded(seed):
    from minisgl.core import get_global_ctx

    first = engine(num_page_override=4)
    error = error_of(lambda: engine(num_page_override=4, max_seq_len_override=1025))
    longest = engine(num_page_override=2000, max_seq_len_override=1024)
    return [error, get_global_ctx() is longest.ctx, longest.max_seq_len, first.max_seq_len,
            error_of(lambda: config(max_seq_len_override=1025).max_seq_len),
            made_nothing(max_seq_len_override=1025)]  # fmt: skip


def made_nothing(**settings: Any) -> bool:
    """Whether an engine that is refused leaves the context as it was, and reads no weight."""
    from minisgl.core import get_global_ctx
    from minisgl.engine import engine as module

    before, read = get_global_ctx(), mock.Mock()
    with mock.patch.object(module, "load_weight", read):
        error_of(lambda: engine(**settings))
    return get_global_ctx() is before and not read.called


def judge_a_length_beyond_the_model_s_positions_is_refused_before_anything_is_loaded(seed, got):
    for error in (got[0], got[4]):
        refused(error, "1025 tokens", "max_seq_len_override", "1025", "1024", kind="ValueError")
    equal(got[1:4], [True, 1024, 4], "the last engine's context; longest requests of two engines")
    equal(got[5], True, "the refused engine read no weight and left the context")
