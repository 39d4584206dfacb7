"""Offline generation: prompts in, answers out, in one process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from minisgl.core import SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import BaseBackendMsg, DetokenizeMsg, UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.utils import load_tokenizer


class RequestAllFinished(Exception):
    """Every request of a generate call has been answered; it ends the scheduler's loop."""


@dataclass
class RequestStatus:
    """One prompt of a generate call, and what has been generated for it."""

    uid: int
    input_ids: list[int]
    output_ids: list[int] = field(default_factory=list)


class LLM(Scheduler):
    """A scheduler that serves one generate call after another.

    kwargs: any other field of SchedulerConfig, such as page_size or max_extend_tokens. One call
    runs at a time in a process; a call from another thread waits for its turn.
    """

    _one_at_a_time = threading.Lock()

    def __init__(self, model_path: str, dtype: torch.dtype = torch.bfloat16, **kwargs: Any) -> None:
        config = SchedulerConfig(
            model_path=model_path,
            tp_info=DistributedInfo(0, 1),
            dtype=dtype,
            offline_mode=True,
            **kwargs,
        )
        super().__init__(config)
        self.tokenizer = load_tokenizer(model_path)
        self.counter = 0
        self.pending_requests: deque[UserMsg] = deque()
        self.status_map: dict[int, RequestStatus] = {}
        self._is_open, self._is_dirty = True, False

    def generate(
        self,
        prompts: Sequence[str | list[int]],
        sampling_params: Sequence[SamplingParams] | SamplingParams,
        use_tqdm: bool = True,
    ) -> list[dict[str, str | list[int]]]:
        """Return for each prompt, in order, its answer as "text" and "token_ids".

        prompts: texts or lists of token ids. sampling_params: one for all, or one for each. An end
        id that ends an answer is not part of it. use_tqdm shows a progress bar on stderr.
        Raises ValueError, before anything runs, when there are too few or too many sampling_params
        or a prompt can't be served; the message names the prompt. RuntimeError after shutdown.
        """
        with self._one_at_a_time:
            if not self._is_open:
                raise RuntimeError("this LLM was shut down; make a new one")
            if self._is_dirty:
                self._reset()
            msgs = self._requests(prompts, sampling_params)
            outputs = self._serve(msgs, use_tqdm)
        return [{"text": str(self.tokenizer.decode(ids)), "token_ids": ids} for ids in outputs]

    def shutdown(self) -> None:
        """Wait for the device and give its memory back; generate is refused from then on."""
        self._is_open = False
        super().shutdown()

    def _serve(self, msgs: list[UserMsg], use_tqdm: bool) -> list[list[int]]:
        """Return the answers' ids. What is left of an interrupted call is cleared by the next."""
        self._is_dirty = True
        self.pending_requests = deque(msgs)
        self.status_map = {m.uid: RequestStatus(m.uid, m.input_ids.tolist()) for m in msgs}
        with tqdm(total=len(msgs), disable=not use_tqdm, unit="request") as self._progress:
            try:
                self.run_forever()
            except RequestAllFinished:
                self._is_dirty = False
        outputs = [self.status_map[m.uid].output_ids for m in msgs]
        self.status_map = {}
        return outputs

    def _requests(
        self,
        prompts: Sequence[str | list[int]],
        sampling_params: Sequence[SamplingParams] | SamplingParams,
    ) -> list[UserMsg]:
        if isinstance(prompts, str) or not isinstance(prompts, Iterable):
            raise ValueError("prompts must be a list of texts or of token id lists")
        prompts = list(prompts)
        if isinstance(sampling_params, SamplingParams):
            sampling_params = [sampling_params] * len(prompts)
        if not isinstance(sampling_params, Sequence):
            raise ValueError("sampling_params must be one SamplingParams or a list of them")
        if len(sampling_params) != len(prompts):
            raise ValueError(
                f"there are {len(prompts)} prompts and {len(sampling_params)} sampling_params; "
                "give one for all or one for each"
            )
        msgs: list[UserMsg] = []
        for i, (prompt, params) in enumerate(zip(prompts, sampling_params, strict=True)):
            if not isinstance(params, SamplingParams):
                raise ValueError(f"prompt {i} has no SamplingParams, but a {type(params).__name__}")
            try:
                msg = UserMsg(self.counter + i, self._tokenize_one(prompt), params)
            except TypeError:
                raise ValueError(f"prompt {i} is neither text nor a list of token ids") from None
            except ValueError as wrong:
                raise ValueError(f"prompt {i} can't be served: {wrong}") from None
            if (error := self._refusal(msg)) is not None:
                raise ValueError(f"prompt {i} can't be served: {error}")
            msgs.append(msg)
        self.counter += len(msgs)
        return msgs

    def _tokenize_one(self, prompt: list[int] | str) -> torch.Tensor:
        """Return the prompt's ids: (tokens,) int32; raises TypeError for what holds no ids."""
        if isinstance(prompt, str):
            prompt = self.tokenizer.encode(prompt)
        if hasattr(prompt, "tolist"):  # a tensor or an array
            prompt = prompt.tolist()
        if not isinstance(prompt, list | tuple):
            raise TypeError(f"a {type(prompt).__name__} holds no token ids")
        for i in prompt:
            if type(i) is not int:
                raise TypeError(f"{i!r} is no token id")
            if not 0 <= i < 1 << 31:
                raise ValueError(f"token id {i} is not in the vocabulary")
        return torch.tensor(prompt, dtype=torch.int32)

    def offline_receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        """Take requests until their prompts fill a prefill batch; the rest waits outside."""
        if blocking and not self.pending_requests:
            raise RequestAllFinished
        msgs: list[BaseBackendMsg] = []
        tokens = 0
        while self.pending_requests and tokens < self.prefill_budget:
            msg = self.pending_requests.popleft()
            tokens += len(msg.input_ids)
            msgs.append(msg)
        return msgs

    def offline_send_result(self, reply: list[DetokenizeMsg]) -> None:
        for msg in reply:
            if not msg.at_end:
                self.status_map[msg.uid].output_ids.append(msg.next_token)
            if msg.finished:
                self._progress.update()
