"""Chapter 12: requests reach the scheduler, and tokens leave it, as bytes through a socket."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from typing import Any

import torch

import book
from minisgl.core import SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import (
    AbortBackendMsg,
    BaseBackendMsg,
    BaseTokenizerMsg,
    DetokenizeMsg,
    MessageError,
    UserMsg,
)
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.utils import ZmqPubQueue, ZmqPullQueue, ZmqPushQueue, ZmqSubQueue

TEXTS = ("The capital of France is", "Two plus two is")


class Remote(Scheduler):
    """A scheduler that is reached through two queues in a private folder."""

    def __init__(self, config: SchedulerConfig, folder: str, requests: int) -> None:
        super().__init__(config)
        backend, tokens = f"ipc://{folder}/backend", f"ipc://{folder}/tokens"
        self.inbox = ZmqPullQueue(backend, True, BaseBackendMsg.decoder)
        self.outbox = ZmqPushQueue(tokens, True, BaseTokenizerMsg.encoder)
        self.open, self.messages = requests, 0
        self.logits = book.watch_logits(self.engine)

    def offline_receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        if blocking and not self.open:
            raise book.AllDone
        msgs = []
        while blocking or not self.inbox.empty():
            msgs.append(self.inbox.get())
            blocking = False
        self.messages += len(msgs)
        return msgs

    def offline_send_result(self, reply: list[DetokenizeMsg]) -> None:
        for msg in reply:
            self.outbox.put(msg)
            self.open -= msg.finished
        self.messages += len(reply)


class Client(threading.Thread):
    """Sends requests and gathers what comes back, uid by uid."""

    def __init__(self, folder: str, msgs: list[UserMsg]) -> None:
        super().__init__(daemon=True)
        self.requests = ZmqPushQueue(f"ipc://{folder}/backend", False, BaseBackendMsg.encoder)
        self.replies = ZmqPullQueue(f"ipc://{folder}/tokens", False, BaseTokenizerMsg.decoder)
        self.msgs, self.tokens = msgs, {msg.uid: [] for msg in msgs}

    def run(self) -> None:
        for msg in self.msgs:
            self.requests.put(msg)
        left = len(self.msgs)
        while left:
            msg = self.replies.get()
            self.tokens[msg.uid].append(msg.next_token)
            left -= msg.finished


def serve(model_path: str, settings: Any, msgs: list[UserMsg]) -> tuple[Client, Remote]:
    """Serve the requests of a client that is reached through sockets only."""
    config = SchedulerConfig(
        model_path=model_path,
        tp_info=DistributedInfo(0, 1),
        dtype=getattr(torch, settings.dtype),
        max_running_req=8,
        page_size=settings.page_size,
        num_page_override=4096 // settings.page_size,
        offline_mode=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        scheduler = Remote(config, folder, len(msgs))
        client = Client(folder, msgs)
        client.start()
        try:
            scheduler.run_forever()
        except book.AllDone:
            client.join()
        for queue in (scheduler.inbox, scheduler.outbox, client.requests, client.replies):
            queue.stop()
    return client, scheduler


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Through the sockets and back."""
    settings = book.config(config, dtype="float32", page_size=1)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    msgs = [UserMsg(i, torch.tensor(ids).int(), params) for i, ids in enumerate(prompts)]
    client, scheduler = serve(model_path, settings, msgs)
    uids = range(len(prompts))
    top2 = [scheduler.logits[uid] for uid in uids]
    counters = {"messages": scheduler.messages}
    return book.Generation([client.tokens[uid] for uid in uids], top2, counters)


def broadcast() -> list[list[int]]:
    """What two subscribers get of three messages, when one of them comes late."""
    got: list[list[int]] = [[], []]

    def listen(i: int, address: str) -> None:
        time.sleep(0.5 * i)
        queue = ZmqSubQueue(address, False, BaseBackendMsg.decoder)
        got[i] = [queue.get().uid for _ in range(3)]
        queue.stop()

    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/broadcast"
        queue = ZmqPubQueue(address, True, BaseBackendMsg.encoder, subscribers=2)
        threads = [threading.Thread(target=listen, args=(i, address)) for i in range(2)]
        for thread in threads:
            thread.start()
        for uid in (7, 8, 9):
            queue.put(AbortBackendMsg(uid))
        for thread in threads:
            thread.join()
        queue.stop()
    return got


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    msg = UserMsg(5, torch.tensor([504, 3575], dtype=torch.int32), SamplingParams(max_tokens=3))
    print("a request, as the map that msgpack carries:")
    print(json.dumps(msg.encoder(), default=bytes.hex, indent=1))
    for wrong in ({"__type__": "Popen"}, {"__type__": "AbortBackendMsg", "uid": "5"}):
        try:
            BaseBackendMsg.decoder(wrong)
        except MessageError as error:
            print(f"{wrong}: {error}")
    print(f"a broadcast to two, one of them late: {broadcast()}\n")
    prompts = [book.encode(args.model, text) for text in TEXTS]
    generation = generate(args.model, prompts, args.max_tokens)
    for text, tokens in zip(TEXTS, generation.token_ids, strict=True):
        print(f"{text}{book.decode(args.model, tokens)!r}")
    print(generation.counters)
    book.report(generation)


if __name__ == "__main__":
    main()
