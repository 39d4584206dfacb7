"""A scheduler on an engine without a model, for what the scheduler itself costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from minisgl.core import Context, SamplingParams, set_global_ctx
from minisgl.distributed.info import DistributedInfo
from minisgl.engine import ForwardOutput
from minisgl.message import UserMsg
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.scheduler import scheduler as module
from minisgl.utils.device import new_event

VOCAB, LONGEST, MOST_RUNNING = 97, 8192, 256


class StubEngine:
    """What the scheduler asks of an engine; a forward pass only books and answers token 1."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.device, self.stream = torch.device("cpu"), None
        self.num_pages, self.max_seq_len = config.num_page_override, config.max_seq_len
        self.ctx = Context(config.page_size)
        set_global_ctx(self.ctx)
        shape = (config.max_running_req, self.max_seq_len)
        self.ctx.page_table = torch.zeros(shape, dtype=torch.int32)
        self.ctx.attn_backend = SimpleNamespace(prepare_metadata=lambda batch: None)  # type: ignore[assignment]
        self.sampler = SimpleNamespace(prepare=lambda batch: None)
        self.answer = torch.ones(config.max_running_req, dtype=torch.int32)
        self.seconds = 0.0

    def forward_batch(self, batch: Any, args: Any) -> ForwardOutput:
        """Book the pass; only what a real engine does on the device is left out."""
        for req in batch.reqs:
            req.complete_one()
        tokens = self.answer[: batch.size]
        return ForwardOutput(tokens, tokens, new_event(self.device))


class Driven(Scheduler):
    """A scheduler whose messages come from inbox and whose replies go nowhere."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.inbox: list[UserMsg] = []
        with mock.patch.object(module, "Engine", StubEngine):
            super().__init__(config)

    def run_when_idle(self) -> None:
        pass  # the check of the whole pool is done while there is no work, and not counted

    def offline_receive_msg(self, blocking: bool = False) -> list[Any]:
        taken, self.inbox = self.inbox, []
        return taken

    def offline_send_result(self, reply: list[Any]) -> None:
        pass


def scheduler_with(settings: dict[str, Any]) -> Driven:
    """A scheduler with running requests, their prompts computed.

    pool: its tokens; tree: tokens that the prefix cache holds before. The prompts differ a little
    in length, so that about as many requests need a new page in each step.
    """
    config = SchedulerConfig(
        model_path="no checkpoint",
        tp_info=DistributedInfo(0, 1),
        dtype=torch.float32,
        max_running_req=MOST_RUNNING,
        page_size=settings["page"],
        cache_type=settings["cache"],
        num_page_override=settings["pool"] // settings["page"],
        max_seq_len_override=LONGEST,
        max_extend_tokens=1 << 30,
        offline_mode=True,
    )
    vars(config)["eos_token_ids"] = frozenset({0})
    vars(config)["model_config"] = SimpleNamespace(vocab_size=VOCAB)
    scheduler = Driven(config)
    finish(scheduler, [message(i, 64, 1) for i in range(settings["tree"] // 64)])
    lengths = [settings["prompt"] + i % 16 for i in range(settings["running"])]
    scheduler.inbox += [message(i, length, 1024) for i, length in enumerate(lengths)]
    scheduler.normal_loop()
    return scheduler


def message(uid: int, length: int, max_tokens: int) -> UserMsg:
    """A request with a random prompt."""
    ids = torch.randint(1, VOCAB, (length,), dtype=torch.int32)
    return UserMsg(uid, ids, SamplingParams(max_tokens=max_tokens))


def finish(scheduler: Driven, messages: list[UserMsg]) -> None:
    """Run these requests to their ends, so that their prompts are cached."""
    scheduler.inbox += messages
    while scheduler.inbox or scheduler._runnable:
        scheduler.normal_loop()
