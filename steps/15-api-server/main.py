"""Chapter 15: clients talk to the engine over HTTP, and get each token as it comes."""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import uvicorn

import book
from minisgl.distributed.info import DistributedInfo
from minisgl.message import BaseBackendMsg, DetokenizeMsg, ExitMsg
from minisgl.scheduler import Scheduler
from minisgl.scheduler.scheduler import SchedulerExit
from minisgl.server.api_server import app, set_global_state
from minisgl.server.args import ServerArgs
from minisgl.server.asgi import Gate
from minisgl.server.service import make_state
from minisgl.tokenizer import tokenize_worker
from minisgl.utils import ZmqPushQueue, load_tokenizer

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class Watched(Scheduler):
    """The scheduler of a server, whose tokens and logits can be looked at."""

    def __init__(self, config: ServerArgs) -> None:
        super().__init__(config)
        self.tokens: dict[int, list[int]] = {}
        self.logits = book.watch_logits(self.engine)

    def send_result(self, reply: list[DetokenizeMsg]) -> None:
        super().send_result(reply)
        for msg in reply:
            self.tokens.setdefault(msg.uid, []).append(msg.next_token)

    def run(self) -> None:
        try:
            self.run_forever()
        except SchedulerExit:
            self.close_queues()


def server_args(model_path: str, settings: Any, folder: str) -> ServerArgs:
    return ServerArgs(
        model_path=model_path,
        tp_info=DistributedInfo(0, 1),
        dtype=getattr(torch, settings.dtype),
        max_running_req=16,
        page_size=settings.page_size,
        num_page_override=4096 // settings.page_size,
        socket_folder=folder,
    )


def serve_http(args: ServerArgs, ports: queue.Queue[int]) -> None:
    """The API, until this process ends."""

    async def run() -> None:
        state = make_state(args)
        set_global_state(state)
        listener = asyncio.create_task(state.listen())
        config = uvicorn.Config(Gate(app, args), port=0, log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ports.put(server.servers[0].sockets[0].getsockname()[1])
        await asyncio.gather(listener, serving)

    asyncio.run(run())


def run_tokenizer(args: ServerArgs, ready: queue.Queue[str]) -> None:
    tokenize_worker(
        tokenizer_path=args.model_path,
        addr=args.zmq_detokenizer_addr,
        create=True,
        backend_addr=args.zmq_backend_addr,
        frontend_addr=args.zmq_frontend_addr,
        local_bs=64,
        ack_queue=ready,
    )


@contextmanager
def service(model_path: str, settings: Any) -> Iterator[tuple[int, Watched]]:
    """The three parts of `python -m minisgl` as threads of this process; yields port, scheduler.

    There they are processes. Here main looks into the scheduler, so that they share one.
    """
    ready: queue.Queue[Any] = queue.Queue()
    with tempfile.TemporaryDirectory() as folder:
        args = server_args(model_path, settings, folder)
        scheduler = Watched(args)
        backend = ZmqPushQueue(args.zmq_backend_addr, False, BaseBackendMsg.encoder)
        running = threading.Thread(target=scheduler.run, daemon=True)
        running.start()
        threading.Thread(target=run_tokenizer, args=(args, ready), daemon=True).start()
        ready.get(timeout=60)
        threading.Thread(target=serve_http, args=(args, ready), daemon=True).start()
        yield ready.get(timeout=60), scheduler
        backend.put(ExitMsg())
        running.join()
        backend.stop()


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json"}
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
    connection.request(method, path, data, headers)
    return connection.getresponse()


def events(response: http.client.HTTPResponse) -> Iterator[Any]:
    """Yield the events of a stream; None for the one that ends it."""
    for line in response:
        if line.startswith(b"data: "):
            data = line.removeprefix(b"data: ").strip()
            yield None if data == b"[DONE]" else json.loads(data)


def metric(port: int, name: str) -> float:
    text = ask(port, "/metrics").read().decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def whole_and_streamed(port: int, body: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Ask twice, once for one body and once for a stream; both must hold the same texts."""
    whole = json.load(ask(port, "/v1/completions", body))
    if "error" in whole:
        raise RuntimeError(whole["error"]["message"])
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *pieces, done = events(ask(port, "/v1/completions", {**body, **options}))
    texts = ["" for _ in whole["choices"]]
    for piece in pieces:
        for choice in piece["choices"]:
            texts[choice["index"]] += choice["text"]
    if done is not None or texts != [choice["text"] for choice in whole["choices"]]:
        raise RuntimeError("the stream and the whole answer are not the same")
    return whole, pieces


def generate(
    model_path: str, prompts: list[list[int]], max_tokens: int, **config: Any
) -> book.Generation:
    """All prompts in one request, answered once as a whole and once as a stream."""
    settings = book.config(config, dtype="float32", page_size=1)
    uids = range(len(prompts))
    with service(model_path, settings) as (port, scheduler):
        body = {"model": model_path, "prompt": prompts, "max_tokens": max_tokens}
        body |= {"temperature": 0, "ignore_eos": True}
        whole, pieces = whole_and_streamed(port, body)
        tokens = [scheduler.tokens[uid] for uid in uids]
        top2 = [scheduler.logits[uid] for uid in uids]
    tokenizer = load_tokenizer(model_path)
    if [choice["text"] for choice in whole["choices"]] != tokenizer.batch_decode(tokens):
        raise RuntimeError("the texts are not those of the tokens")
    if whole["usage"]["completion_tokens"] != sum(map(len, tokens)):
        raise RuntimeError("usage does not count the tokens")
    counters = {
        "requests": len(scheduler.tokens),
        "events": len(pieces),
        "cached_tokens": pieces[-1]["usage"]["prompt_tokens_details"]["cached_tokens"],
    }
    return book.Generation(tokens, top2, counters)


def main() -> None:
    args = book.arguments(__doc__, max_tokens=16)
    with service(args.model, book.config({}, dtype="float32", page_size=1)) as (port, scheduler):
        chat = {"model": args.model, "messages": QUESTION, "temperature": 0}
        answer = json.load(ask(port, "/v1/chat/completions", chat))
        print(f"{QUESTION[0]['content']}\n  {answer['choices'][0]['message']}")
        print(f"  ended by {answer['choices'][0]['finish_reason']!r}; {answer['usage']}")

        stop = {**chat, "stop": [" is"], "stream": True}
        *pieces, _ = events(ask(port, "/v1/chat/completions", stop))
        deltas = [piece["choices"][0]["delta"].get("content", "") for piece in pieces]
        print(f"\nthe same as a stream, with the stop string ' is':\n  {deltas}")

        for wrong in ({"best_of": 2}, {"max_tokens": 0}, {"messages": [{"role": "user"}]}):
            response = ask(port, "/v1/chat/completions", {**chat, **wrong})
            print(f"\n{wrong}\n  {response.status} {json.load(response)['error']['message']}")

        long = {"model": args.model, "prompt": "Once", "max_tokens": 1000, "ignore_eos": True}
        response = ask(port, "/v1/completions", {**long, "stream": True})
        next(events(response))
        response.close()
        end = time.monotonic() + 2
        while scheduler.stats().running and time.monotonic() < end:
            time.sleep(0.01)
        aborted = metric(port, 'minisgl_requests_total{outcome="aborted"}')
        running = scheduler.stats().running
        print(f"\na client that goes away: {aborted:.0f} request aborted, {running} running")
    prompts = [book.encode(args.model, text) for text in ("The capital of France is", "Two")]
    book.report(generate(args.model, prompts, args.max_tokens))


if __name__ == "__main__":
    main()
