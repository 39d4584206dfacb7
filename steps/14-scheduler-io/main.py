"""Chapter 14: two ranks serve the same requests; one hears of them from the other alone."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import torch

import book
from minisgl.core import SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import (
    BaseBackendMsg,
    BaseTokenizerMsg,
    BatchTokenizerMsg,
    DetokenizeMsg,
    ExitMsg,
    StatsMsg,
    UserMsg,
)
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.scheduler.scheduler import SchedulerExit
from minisgl.utils import ZmqPullQueue, ZmqPushQueue

TEXTS = ("The capital of France is", "Two plus two is", "The capital of France is Paris, and")


class Rank(Scheduler):
    """A scheduler as it runs online, which also keeps what it saw."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.logits = book.watch_logits(self.engine)
        self.tokens: dict[int, list[int]] = {}
        self.messages = self.polls = self.idle_checks = 0

    def receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        msgs = super().receive_msg(blocking)
        self.polls, self.messages = self.polls + 1, self.messages + len(msgs)
        return msgs

    def run_when_idle(self) -> None:
        super().run_when_idle()
        self.idle_checks += 1

    def send_result(self, reply: list[DetokenizeMsg]) -> None:
        super().send_result(reply)
        for msg in reply:
            self.tokens.setdefault(msg.uid, []).append(msg.next_token)

    def steps(self, overlap: bool) -> Iterator[None]:
        """run_forever, a step at a time."""
        data = None
        while True:
            if overlap:
                data = self.overlap_loop(data)
            else:
                self.normal_loop()
            yield


class Client(threading.Thread):
    """Stands for the tokenizers: sends requests one after the other, and gathers the tokens."""

    def __init__(self, config: SchedulerConfig, msgs: list[UserMsg]) -> None:
        super().__init__(daemon=True)
        self.replies = ZmqPullQueue(config.zmq_detokenizer_addr, True, BaseTokenizerMsg.decoder)
        self.requests = ZmqPushQueue(config.zmq_backend_addr, False, BaseBackendMsg.encoder)
        self.msgs = msgs
        self.tokens: dict[int, list[int]] = {}
        self.stats: list[StatsMsg] = []

    def run(self) -> None:
        for msg in self.msgs:
            self.requests.put(msg)
        left = len(self.msgs)
        while left:
            msg = self.replies.get()
            for inner in msg.data if isinstance(msg, BatchTokenizerMsg) else [msg]:
                if isinstance(inner, StatsMsg):
                    self.stats.append(inner)
                    continue
                self.tokens.setdefault(inner.uid, []).append(inner.next_token)
                left -= inner.finished
        self.requests.put(ExitMsg())


def rank_config(model_path: str, settings: Any, folder: str, rank: int) -> SchedulerConfig:
    return SchedulerConfig(
        model_path=model_path,
        tp_info=DistributedInfo(rank, 2),
        dtype=getattr(torch, settings.dtype),
        max_running_req=8,
        page_size=settings.page_size,
        num_page_override=4096 // settings.page_size,
        socket_folder=folder,
    )


@torch.inference_mode()
def serve(model_path: str, settings: Any, msgs: list[UserMsg]) -> tuple[Client, list[Rank]]:
    """Step both ranks in turn until an ExitMsg has come to each.

    Each holds the whole model here; from chapter 16 on each holds a part of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        ranks = [Rank(rank_config(model_path, settings, folder, rank)) for rank in (0, 1)]
        client = Client(ranks[0].config, msgs)
        client.start()
        running = [rank.steps(settings.overlap) for rank in ranks]
        while running:
            for steps in list(running):
                try:
                    next(steps)
                except SchedulerExit:
                    running.remove(steps)
        client.join()
        for end in (*ranks, client.replies, client.requests):
            end.close_queues() if isinstance(end, Rank) else end.stop()
    return client, ranks


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """What rank 1 computes, which must be what the client got from rank 0."""
    settings = book.config(config, dtype="float32", page_size=1, overlap=True)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    msgs = [UserMsg(i, torch.tensor(ids).int(), params) for i, ids in enumerate(prompts)]
    client, (first, second) = serve(model_path, settings, msgs)
    if not client.tokens == first.tokens == second.tokens:
        raise RuntimeError("the two ranks and the client don't have the same tokens")
    counters = {
        "ranks": 2,
        "broadcasts": second.polls,
        "messages": second.messages,
        "idle_checks_rank0": first.idle_checks,
        "idle_checks_rank1": second.idle_checks,
    }
    uids = range(len(prompts))
    top2 = [second.logits[uid] for uid in uids]
    return book.Generation([second.tokens[uid] for uid in uids], top2, counters)


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    prompts = [book.encode(args.model, text) for text in TEXTS]
    result = generate(args.model, prompts, args.max_tokens)
    for text, ids in zip(TEXTS, result.token_ids, strict=True):
        print(f"{text!r} -> {book.decode(args.model, ids)!r}")
    heard = result.counters["messages"]
    print(f"\nrank 1 heard of {heard} messages, all from rank 0, and has the same tokens")
    checks = min(result.counters[f"idle_checks_rank{rank}"] for rank in (0, 1))
    print(f"each rank checked its pool before it waited: {checks > 0}")
    book.report(result)


if __name__ == "__main__":
    main()
