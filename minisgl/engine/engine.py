"""The engine: a model, its KV pool and page table, and one call that runs a batch through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from minisgl.attention import create_attention_backend
from minisgl.core import Context, set_global_ctx
from minisgl.distributed.info import get_tp_info
from minisgl.kvcache import create_kvcache_pool
from minisgl.layers import set_rope_device
from minisgl.models import create_model, load_weight
from minisgl.utils import align_ceil, div_even, init_logger, torch_dtype
from minisgl.utils.device import (
    Event,
    default_device,
    free_memory,
    new_event,
    new_stream,
    synchronize,
)

from .sample import Logprobs, Sampler, log_probs

if TYPE_CHECKING:
    from minisgl.core import Batch

    from .config import EngineConfig
    from .sample import BatchSamplingArgs

logger = init_logger(__name__)

CPU_POOL_BYTES = 2 << 30
"""The most that the KV pool takes of a CPU's memory, which the engine shares with others."""


class ForwardOutput(NamedTuple):
    """The sampled tokens, (requests,) int32; the copy on the CPU is valid after copy_done_event.

    logprobs: on the CPU, valid after it too; None when no request of the batch asks for them.
    """

    next_tokens_gpu: torch.Tensor
    next_tokens_cpu: torch.Tensor
    copy_done_event: Event
    logprobs: Logprobs | None = None


class Engine:
    """Owns what lies on the device. Whoever builds the batches decides who runs and where.

    ctx: pool, page table and backend. max_seq_len: tokens that a request may have, output included.
    Raises RuntimeError when the weights leave no memory for a single page.
    """

    def __init__(self, config: EngineConfig) -> None:
        longest = config.max_seq_len  # refused, if at all, before anything is loaded
        self.device, self.dtype = default_device(), config.dtype
        self.stream = new_stream(self.device)
        self.tp_cpu_group: torch.distributed.ProcessGroup | None = None  # of ranks: chapter 16
        self.ctx = Context(config.page_size)
        set_global_ctx(self.ctx)
        free_at_start = free_memory(self.device)

        set_rope_device(self.device)
        with torch.device("meta"), torch_dtype(self.dtype):
            self.model = create_model(config.model_config)
        self.model.load_state_dict(self._load_weight_state_dict(config))
        self.model.process_weights_after_loading()

        self.num_pages = self._determine_num_pages(free_at_start, config)
        self.max_seq_len = min(longest, self.num_pages * config.page_size)
        self.ctx.kv_cache = create_kvcache_pool(
            config.model_config, self.num_pages, config.page_size, self.dtype, self.device
        )
        self.ctx.page_table = torch.zeros(
            config.max_running_req,
            align_ceil(_align_up_32(self.max_seq_len), config.page_size),  # whole pages fit a row
            dtype=torch.int32,
            device=self.device,
        )
        self.ctx.attn_backend = create_attention_backend(
            config.attention_backend, config.model_config
        )
        self.sampler = Sampler(self.device, config.model_config.vocab_size, config.max_running_req)
        logger.info(
            "%s on %s: %d pages of %d tokens, at most %d tokens a request",
            config.model_config.architectures[0],
            self.device,
            self.num_pages,
            config.page_size,
            self.max_seq_len,
        )

    def _load_weight_state_dict(self, config: EngineConfig) -> dict[str, torch.Tensor]:
        """Return the weights in the engine's dtype: the checkpoint's, or random ones."""
        if config.use_dummy_weight:
            return {
                name: torch.randn(like.shape, dtype=self.dtype, device=self.device) * 0.02
                for name, like in self.model.state_dict().items()
            }
        return dict(load_weight(config.model_path, self.device, self.dtype))

    def _determine_num_pages(self, old_free_memory: int, config: EngineConfig) -> int:
        """Return how many pages fit into the memory that the weights have left."""
        if config.num_page_override is not None:
            return config.num_page_override
        model = config.model_config
        heads = div_even(model.num_kv_heads, get_tp_info().size, allow_replicate=True)
        token_bytes = 2 * model.num_layers * heads * model.head_dim * self.dtype.itemsize
        taken = old_free_memory - free_memory(self.device)
        room = int(config.memory_ratio * old_free_memory) - max(taken, 0)
        if self.device.type == "cpu":
            room = min(room, CPU_POOL_BYTES)
        num_pages = room // (token_bytes * config.page_size)
        if num_pages < 1:
            raise RuntimeError(
                f"no memory is left for the KV pool: {taken} of {old_free_memory} bytes went to "
                "the weights; raise memory_ratio or free memory on the device"
            )
        return num_pages

    @torch.inference_mode()
    def forward_batch(self, batch: Batch, args: BatchSamplingArgs) -> ForwardOutput:
        """Run one forward pass and sample; each request then has one more token to compute.

        The batch's tensors and attn_metadata must be set, and args come from sampler.prepare.
        On CUDA the caller works inside use_stream(engine.stream).
        """
        set_global_ctx(self.ctx)
        with self.ctx.forward_batch(batch):
            logits = self.model.forward()
        for req in batch.reqs:
            req.complete_one()
        logits = logits[: batch.size]
        next_tokens = self.sampler.sample(logits, args).to(torch.int32)
        on_cpu, logprobs = next_tokens.to("cpu", non_blocking=True), None
        if args.top_logprobs is not None:
            found = log_probs(logits, next_tokens, args.top_logprobs)
            logprobs = Logprobs(*(part.to("cpu", non_blocking=True) for part in found))
        done = new_event(self.device)
        done.record()  # in the stream that the copies were queued on, which is the current one
        return ForwardOutput(next_tokens, on_cpu, done, logprobs)

    def shutdown(self) -> None:
        """Wait for the device, then give weights and pool back; nothing can run afterwards."""
        synchronize(self.device)
        vars(self).pop("model", None)
        for name in ("kv_cache", "page_table", "attn_backend"):
            vars(self.ctx).pop(name, None)


def _align_up_32(num: int) -> int:
    return align_ceil(num, 32)
