"""The loop that decides, step by step, which requests run, and hands them to the engine."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np
import torch

from minisgl.core import Batch, Req, set_global_ctx
from minisgl.engine import BatchSamplingArgs, Engine, ForwardOutput, Logprobs
from minisgl.env import ENV
from minisgl.message import (
    AbortBackendMsg,
    BaseBackendMsg,
    DetokenizeMsg,
    ExitMsg,
    StatsMsg,
    UserMsg,
)
from minisgl.utils import init_logger
from minisgl.utils.device import new_stream, pin, synchronize, use_stream
from minisgl.utils.trace import TraceRecorder, scheduler_span

from .cache import CacheManager
from .config import SchedulerConfig
from .decode import DecodeManager
from .io import SchedulerIOMixin
from .prefill import ChunkedReq, PrefillManager
from .table import TableManager

logger = init_logger(__name__)

Indice2D = tuple[torch.Tensor, torch.Tensor]
"""Rows and columns of the page table or the token pool, entry by entry."""


class SchedulerExit(Exception):
    """An ExitMsg has come; it ends run_forever."""


class ForwardInput(NamedTuple):
    """A batch that is ready to run. Its tokens are read from the token pool at input_tuple, when
    it runs; what it samples is written there at write_tuple."""

    batch: Batch
    sample_args: BatchSamplingArgs
    input_tuple: Indice2D
    write_tuple: Indice2D


ForwardData = tuple[ForwardInput, ForwardOutput]


class Scheduler(SchedulerIOMixin):
    """Continuous batching over one engine. A request is waiting, then running, then ended.

    It ends at an end id, at its last token, or by an abort; its row and its pages are given back
    once no launched batch holds it. trace: set a TraceRecorder to see what happens when.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.engine = Engine(config)
        super().__init__(config, self.engine.tp_cpu_group)
        self.device, self.stream = self.engine.device, new_stream(self.engine.device)
        self.eos_token_ids = config.eos_token_ids
        self.prefill_budget = config.max_extend_tokens
        self.trace: TraceRecorder | None = None
        self._reset()

    def _reset(self) -> None:
        """Begin with no request and an empty cache, whatever was before."""
        config, ctx = self.config, self.engine.ctx
        synchronize(self.device)
        set_global_ctx(ctx)
        with use_stream(self.stream):  # so that nothing is used before it is made
            self.table_manager = TableManager(config.max_running_req, ctx.page_table)
            self.token_pool = self.table_manager.token_pool
            self.cache_manager = CacheManager(
                self.engine.num_pages, config.page_size, ctx.page_table, config.cache_type
            )
            self.decode_manager = DecodeManager(config.page_size)
            self.prefill_manager = PrefillManager(
                self.cache_manager, self.table_manager, self.decode_manager
            )
            self.in_flight: deque[Batch] = deque()
            self.finished_reqs: set[Req] = set()

    def run_when_idle(self) -> None:
        """Check that everything that was handed out has come back."""
        self.cache_manager.check_integrity()
        free, rows = self.table_manager.available_size, self.config.max_running_req
        if free != rows:
            raise RuntimeError(f"rows still taken although no request is left: {rows - free}")

    def stats(self) -> StatsMsg:
        """Return how many requests have a row or wait for one, and who has the pool's slots."""
        cache, tables, size = self.cache_manager, self.table_manager, self.config.page_size
        cached = cache.prefix_cache.size_info.evictable_size
        begun = sum(req.chunked_req is not None for req in self.prefill_manager.pending_list)
        return StatsMsg(
            running=self.config.max_running_req - tables.available_size,
            waiting=len(self.prefill_manager.pending_list) - begun,
            used_tokens=cache.num_pages * size - cache.available_size,
            cached_tokens=cached,
            total_tokens=cache.num_pages * size,
        )

    def overlap_loop(self, last_data: ForwardData | None) -> ForwardData | None:
        """One step: launch the next batch, then read the one launched before, last_data.

        While the device computes, the CPU reads old results and puts the next batch together.
        Returns what was launched, for the next call.
        """
        with use_stream(self.stream):
            self._receive(blocking=last_data is None and not self._runnable)
            ongoing = self._launch_next_batch()
            self._process_last_data(last_data)
        return ongoing

    def normal_loop(self) -> None:
        """One step: launch the next batch, wait for it and read it."""
        with use_stream(self.stream):
            self._receive(blocking=not self._runnable)
            self._process_last_data(self._launch_next_batch())

    @torch.inference_mode()
    def run_forever(self) -> NoReturn:
        """Step until an exception ends it: SchedulerExit, or LLM's when all is done."""
        if ENV.DISABLE_OVERLAP_SCHEDULING:
            while True:
                self.normal_loop()
        data: ForwardData | None = None
        while True:
            data = self.overlap_loop(data)

    def shutdown(self) -> None:
        """Close the queues, wait for the device and give its memory back; nothing runs then."""
        self.close_queues()
        self.engine.shutdown()
        for name in ("table_manager", "token_pool", "cache_manager", "prefill_manager"):
            vars(self).pop(name, None)

    @property
    def _runnable(self) -> bool:
        return self.prefill_manager.runnable or self.decode_manager.runnable

    def _receive(self, blocking: bool) -> None:
        for msg in self.receive_msg(blocking):
            self._process_one_msg(msg)

    def _launch_next_batch(self) -> ForwardData | None:
        if (forward_input := self._schedule_next_batch()) is None:
            return None
        return forward_input, self._forward(forward_input)

    def _process_last_data(self, last_data: ForwardData | None) -> None:
        """Wait for a batch's tokens, hand them on, and let go whatever has ended."""
        reply: list[DetokenizeMsg] = []
        with self.cache_manager.lazy_free_region():
            if last_data is not None:
                (batch, *_), output = last_data
                with scheduler_span(self.trace, "wait"):
                    output.copy_done_event.synchronize()
                with scheduler_span(self.trace, "read"):
                    self.in_flight.popleft()
                    for req, token in zip(batch.reqs, output.next_tokens_cpu.tolist(), strict=True):
                        self._take_token(req, token, batch.is_prefill, reply)
                    if output.logprobs is not None:
                        _add_logprobs(reply, batch.reqs, output.logprobs)
            self._free_ended()
        if reply:
            self.send_result(reply)

    def _take_token(
        self, req: Req, token: int, is_prefill: bool, reply: list[DetokenizeMsg]
    ) -> None:
        if isinstance(req, ChunkedReq) or req in self.finished_reqs:
            return
        req.append_host(token)
        at_end = token in self.eos_token_ids and not req.sampling_params.ignore_eos
        finished = at_end or req.is_complete
        msg = DetokenizeMsg(req.uid, token, finished, at_end=at_end)
        if is_prefill:  # the first reply says how long the prompt was, and how much was cached
            msg.prompt_tokens = len(req.input_ids) - 1
            msg.cached_tokens = req.cache_handle.cached_len
        reply.append(msg)
        if finished:
            self.decode_manager.remove_req(req)
            self.finished_reqs.add(req)
        elif is_prefill:
            self.cache_manager.cache_req(req, finished=False)

    def _free_ended(self) -> None:
        """Free the requests that have ended and that no batch on the device still holds."""
        if not self.finished_reqs:
            return
        held = {req for batch in self.in_flight for req in batch.reqs}
        for req in sorted(self.finished_reqs - held, key=lambda req: req.uid):
            self.finished_reqs.remove(req)
            self._free_req_resources(req)

    def _process_one_msg(self, msg: BaseBackendMsg) -> None:
        if isinstance(msg, UserMsg):
            if (error := self._refusal(msg)) is not None:
                logger.warning("request %d is refused: %s", msg.uid, error)
                return self.send_result([DetokenizeMsg(msg.uid, -1, True, error)])
            room = self.engine.max_seq_len - len(msg.input_ids)
            if msg.sampling_params.max_tokens > room:
                params = replace(msg.sampling_params, max_tokens=room)
                msg = replace(msg, sampling_params=params)
            self.prefill_manager.add_one_req(msg)
        elif isinstance(msg, ExitMsg):
            raise SchedulerExit
        elif isinstance(msg, AbortBackendMsg):
            if (req := self._abort_req(msg.uid)) is not None:
                self.finished_reqs.add(req)
        else:
            raise NotImplementedError(f"the scheduler knows no message {type(msg).__name__}")

    def _refusal(self, msg: UserMsg) -> str | None:
        """Return why the request can never run, as a sentence, or None."""
        length, limit = len(msg.input_ids), self.engine.max_seq_len
        if length == 0:
            return "the prompt is empty; it needs at least one token"
        if length >= limit:
            return (
                f"the prompt has {length} tokens, but prompt and output together may have {limit}: "
                f"shorten it to at most {limit - 1}"
            )
        if msg.sampling_params.max_tokens < 1:
            return f"max_tokens must be at least 1, not {msg.sampling_params.max_tokens}"
        low, high = int(msg.input_ids.min()), int(msg.input_ids.max())
        vocab_size = self.config.model_config.vocab_size
        if low < 0 or high >= vocab_size:
            return f"token id {low if low < 0 else high} is not in the vocabulary of {vocab_size}"
        return None

    def _abort_req(self, uid: int) -> Req | None:
        """Take request uid out of its queue; return it if it holds a row and pages."""
        for manager in (self.prefill_manager, self.decode_manager):
            if (req := manager.abort_req(uid)) is not None:
                return req
        last_step = (req for batch in self.in_flight for req in batch.reqs if req.uid == uid)
        return next(last_step, None)

    def _free_req_resources(self, req: Req) -> None:
        self.cache_manager.cache_req(req, finished=True)
        self.table_manager.free(req.table_idx)

    def _prepare_batch(self, batch: Batch) -> ForwardInput:
        """Give the batch its slots and the tensors that the engine needs."""
        self.cache_manager.allocate_paged(batch.reqs)
        batch.positions = _make_positions(batch, self.device)
        input_tuple = _make_input_tuple(batch, self.device)
        batch.out_loc = self.engine.ctx.page_table[input_tuple]
        self.engine.ctx.attn_backend.prepare_metadata(batch)
        return ForwardInput(
            batch=batch,
            sample_args=self.engine.sampler.prepare(batch),
            input_tuple=input_tuple,
            write_tuple=_make_write_tuple(batch, self.device),
        )

    def _schedule_next_batch(self) -> ForwardInput | None:
        """Return the next batch: waiting prompts first, then the running requests' next tokens."""
        with scheduler_span(self.trace, "schedule"):
            batch = self.prefill_manager.schedule_next_batch(self.prefill_budget)
            batch = batch or self.decode_manager.schedule_next_batch()
            return None if batch is None else self._prepare_batch(batch)

    def _forward(self, forward_input: ForwardInput) -> ForwardOutput:
        """Launch a batch on the engine's stream; nothing here waits for the device."""
        batch, sample_args, input_tuple, write_tuple = forward_input
        stream = self.engine.stream
        with scheduler_span(self.trace, "launch"), use_stream(stream), self._device_span(batch):
            if stream is not None and self.stream is not None:
                stream.wait_stream(self.stream)  # the batch's tensors were made there
            batch.input_ids = self.token_pool[input_tuple]
            output = self.engine.forward_batch(batch, sample_args)
            self.token_pool[write_tuple] = output.next_tokens_gpu
            # Again, now behind the write: who has seen the event may give the row away.
            output.copy_done_event.record(stream)
        self.in_flight.append(batch)
        self.decode_manager.filter_reqs(batch.reqs)
        return output

    def _device_span(self, batch: Batch) -> AbstractContextManager[None]:
        if self.trace is None:
            return nullcontext()
        tokens = {req.uid: req.extend_len for req in batch.reqs}
        return self.trace.on_device(self.engine.stream, batch.phase, tokens=tokens)


def _add_logprobs(reply: list[DetokenizeMsg], reqs: list[Req], logprobs: Logprobs) -> None:
    """Put into each reply what its request asked for: its token's log-probability, then the best.

    reqs: the rows of logprobs, in order.
    """
    rows = {req.uid: row for row, req in enumerate(reqs)}
    for msg in reply:
        row = rows[msg.uid]
        if (count := reqs[row].sampling_params.top_logprobs) is not None:
            msg.logprob_ids = [msg.next_token, *logprobs.top_ids[row, :count].tolist()]
            msg.logprobs = [float(logprobs.chosen[row]), *logprobs.top[row, :count].tolist()]


def _make_positions(batch: Batch, device: torch.device) -> torch.Tensor:
    """Return the position in its request of each token to compute: (tokens,) int64."""
    if batch.is_decode:
        return _to_device(np.array([req.cached_len for req in batch.padded_reqs]), device)
    spans = [np.arange(req.cached_len, req.device_len) for req in batch.padded_reqs]
    return _to_device(np.concatenate(spans), device)


def _make_input_tuple(batch: Batch, device: torch.device) -> Indice2D:
    """Return where the batch's tokens stand in the page table and the token pool."""
    rows = np.array([req.table_idx for req in batch.padded_reqs])
    if batch.is_prefill:
        rows = rows.repeat([req.extend_len for req in batch.padded_reqs])
    return _to_device(rows, device), batch.positions


def _make_write_tuple(batch: Batch, device: torch.device) -> Indice2D:
    """Return where the sampled tokens go: behind each request's last token.

    What a chunk samples goes to the last column, from which no token is ever read.
    """
    rows = np.array([req.table_idx for req in batch.reqs])
    columns = np.array([req.device_len if req.can_decode else -1 for req in batch.reqs])
    return _to_device(rows, device), _to_device(columns, device)


def _to_device(numbers: np.ndarray, device: torch.device) -> torch.Tensor:
    return pin(torch.from_numpy(numbers), device).to(device, non_blocking=True)
