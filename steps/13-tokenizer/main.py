"""Chapter 13: text goes in, and text comes out piece by piece, never with half a character."""

from __future__ import annotations

import queue
import tempfile
import threading
from typing import Any

import torch

import book
from minisgl.core import SamplingParams
from minisgl.distributed.info import DistributedInfo
from minisgl.message import (
    BaseBackendMsg,
    BaseFrontendMsg,
    BaseTokenizerMsg,
    BatchBackendMsg,
    BatchFrontendMsg,
    DetokenizeMsg,
    TokenizeMsg,
    UserMsg,
    UserReply,
)
from minisgl.scheduler import Scheduler, SchedulerConfig
from minisgl.tokenizer import tokenize_worker
from minisgl.tokenizer.detokenize import DetokenizeManager
from minisgl.utils import ZmqPullQueue, ZmqPushQueue, load_tokenizer

EMOJI = "Hi 🦜!"
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
TEXTS: tuple[str | list[dict[str, str]], ...] = ("The capital of France is", CHAT)

Request = TokenizeMsg | UserMsg


class Remote(Scheduler):
    """A scheduler between two queues; what it answers goes to a worker that makes text of it."""

    def __init__(self, config: SchedulerConfig, folder: str, requests: int) -> None:
        super().__init__(config)
        self.inbox = ZmqPullQueue(f"ipc://{folder}/backend", True, BaseBackendMsg.decoder)
        self.outbox = ZmqPushQueue(f"ipc://{folder}/worker", False, BaseTokenizerMsg.encoder)
        self.open = requests
        self.tokens: dict[int, list[int]] = {}
        self.logits = book.watch_logits(self.engine)

    def offline_receive_msg(self, blocking: bool = False) -> list[BaseBackendMsg]:
        if blocking and not self.open:
            raise book.AllDone
        msgs: list[BaseBackendMsg] = []
        while blocking or not self.inbox.empty():
            msg, blocking = self.inbox.get(), False
            msgs += msg.data if isinstance(msg, BatchBackendMsg) else [msg]
        return msgs

    def offline_send_result(self, reply: list[DetokenizeMsg]) -> None:
        for msg in reply:
            self.outbox.put(msg)
            self.tokens.setdefault(msg.uid, []).append(msg.next_token)
            self.open -= msg.finished


class Client(threading.Thread):
    """Sends requests and gathers the pieces of text that come back, uid by uid."""

    def __init__(self, folder: str, requests: list[Request]) -> None:
        super().__init__(daemon=True)
        self.texts = ZmqPushQueue(f"ipc://{folder}/worker", False, BaseTokenizerMsg.encoder)
        self.ids = ZmqPushQueue(f"ipc://{folder}/backend", False, BaseBackendMsg.encoder)
        self.replies = ZmqPullQueue(f"ipc://{folder}/client", True, BaseFrontendMsg.decoder)
        self.requests = requests
        self.pieces: dict[int, list[str]] = {msg.uid: [] for msg in requests}

    def run(self) -> None:
        for msg in self.requests:
            (self.texts if isinstance(msg, TokenizeMsg) else self.ids).put(msg)
        left = len(self.requests)
        while left:
            got = self.replies.get()
            for reply in got.data if isinstance(got, BatchFrontendMsg) else [got]:
                assert isinstance(reply, UserReply)
                self.pieces[reply.uid].append(reply.incremental_output)
                left -= reply.finished


def start_worker(model_path: str, folder: str) -> None:
    """Start a worker beside this thread and return when it is ready."""
    ready: queue.Queue[str] = queue.Queue()
    settings = {
        "tokenizer_path": model_path,
        "addr": f"ipc://{folder}/worker",
        "create": True,
        "backend_addr": f"ipc://{folder}/backend",
        "frontend_addr": f"ipc://{folder}/client",
        "local_bs": 16,
        "ack_queue": ready,
    }
    threading.Thread(target=tokenize_worker, kwargs=settings, daemon=True).start()
    ready.get(timeout=60)


def serve(model_path: str, settings: Any, requests: list[Request]) -> tuple[Client, Remote]:
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
        start_worker(model_path, folder)
        scheduler = Remote(config, folder, len(requests))
        client = Client(folder, requests)
        client.start()
        try:
            scheduler.run_forever()
        except book.AllDone:
            client.join()
        for end in (scheduler.inbox, scheduler.outbox, client.texts, client.ids, client.replies):
            end.stop()
    return client, scheduler


def generation(
    model_path: str, client: Client, scheduler: Remote, uids: list[int]
) -> book.Generation:
    """What these requests got, once it is sure that the pieces are the text of the tokens."""
    tokenizer = load_tokenizer(model_path)
    for uid in uids:
        whole = tokenizer.decode(scheduler.tokens[uid])
        if "".join(client.pieces[uid]) != whole:
            raise RuntimeError(f"request {uid}: its pieces are not {whole!r}")
    pieces = [piece for uid in uids for piece in client.pieces[uid]]
    counters = {
        "replies": len(pieces),
        "pieces": sum(map(bool, pieces)),
    }
    top2 = [scheduler.logits[uid] for uid in uids]
    return book.Generation([scheduler.tokens[uid] for uid in uids], top2, counters)


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """Ids go in at the scheduler; text comes out of the worker."""
    settings = book.config(config, dtype="float32", page_size=1)
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    requests: list[Request] = [
        UserMsg(i, torch.tensor(ids).int(), params) for i, ids in enumerate(prompts)
    ]
    client, scheduler = serve(model_path, settings, requests)
    return generation(model_path, client, scheduler, list(range(len(prompts))))


def show_pieces(model_path: str) -> None:
    """Print what a stream shows, token by token, of a text with a character in several tokens."""
    tokenizer = load_tokenizer(model_path)
    manager = DetokenizeManager(tokenizer)
    ids = tokenizer.encode(EMOJI)
    print(f"{EMOJI!r}, token by token:\n{'id':>6}  {'alone':<10}piece")
    for i, token in enumerate(ids):
        (piece,) = manager.detokenize([DetokenizeMsg(0, token, i == len(ids) - 1)])
        print(f"{token:>6}  {tokenizer.decode([token])!r:<10}{piece!r}")


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    show_pieces(args.model)
    requests: list[Request] = [
        TokenizeMsg(i, text, SamplingParams(max_tokens=args.max_tokens, ignore_eos=i == 0))
        for i, text in enumerate(TEXTS)
    ]
    settings = book.config({}, dtype="float32", page_size=1)
    client, scheduler = serve(args.model, settings, requests)
    for uid, text in enumerate(TEXTS):
        print(f"\n{text}\n  {'|'.join(client.pieces[uid])!r}")
    last = scheduler.tokens[1][-1]
    print(f"  its last token, {last}, is an end id: {last in scheduler.eos_token_ids}")
    result = generation(args.model, client, scheduler, [0])
    print(f"\n{result.counters}")
    book.report(result)


if __name__ == "__main__":
    main()
