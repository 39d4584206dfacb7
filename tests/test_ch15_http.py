"""Chapter 15: the API over HTTP: routes, limits, streams, and clients that go away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pairs import equal, error_of, refused, truth
from stub_frontend import error, left_over, reply, run, stub_args
from stub_http import chat, stub_api, text

NOTHING = [{}, {}, []]
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def shown(call: Any) -> list[Any]:
    """The status of a response and its body."""
    return [call.status, call.json]


@contextmanager
def log_of(*names: str) -> Iterator[list[str]]:
    """The lines that loggers write meanwhile, tracebacks included."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(logging.Formatter().format(record))
    for name in names:
        logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(handler)


def said(body: Any) -> str:
    """The message of an error's body, which must have OpenAI's shape."""
    equal(list(body), ["error"], "what an error's body has")
    equal(sorted(body["error"]), ["code", "message", "param", "type"], "what an error has")
    return body["error"]["message"]


def probe_each_route_answers(seed):
    async def scene():
        async with stub_api() as (call, state, queues):
            answers = {
                "chat": call(CHAT, chat("say hello there")),
                "completion": call(COMPLETIONS, text(["say a b", "say c"], n=2)),
                "models": call("/v1/models"),
                "model": call("/v1/models/no/model"),
                "root": call("/v1"),
                "health": call("/health"),
                "docs": call("/docs"),
            }
            generated = await call("/generate", {"prompt": "say x y", "max_tokens": 9}).whole()
            found = {
                name: shown(await one.whole()) for name, one in answers.items() if name != "docs"
            }
            page = await answers["docs"].whole()
            metrics = await call("/metrics").whole()
            document = (await call("/openapi.json").whole()).json
            return {
                **found,
                "docs_page": [page.status, page.headers["content-type"]],
                "generated": [generated.events, generated.headers["content-type"]],
                "part": document["components"]["schemas"]["TextPart"],
                "metrics": [metrics.status, metrics.headers["content-type"], metrics.body.decode()],
                "left": left_over(state),
                "sent": len(queues.sent),
            }

    return run(scene())


def judge_each_route_answers(seed, got):
    status, body = got["chat"]
    equal([status, body["object"], body["model"]], [200, "chat.completion", "no/model"], "a chat")
    equal(body["choices"][0]["message"]["content"], "hello there ", "its answer")
    status, body = got["completion"]
    equal([status, body["object"]], [200, "text_completion"], "a completion")
    texts = [choice["text"] for choice in body["choices"]]
    equal(texts, ["a b ", "a b ", "c ", "c "], "two answers to each of two prompts")
    equal(body["usage"]["total_tokens"], 10 + 6, "tokens: two prompts, four answers")
    status, body = got["models"]
    equal([status, [card["id"] for card in body["data"]]], [200, ["no/model"]], "the models")
    equal(got["model"], [200, {**body["data"][0], "created": got["model"][1]["created"]}], "it")
    equal([got["root"], got["health"]], [[200, {"status": "ok"}]] * 2, "/v1 and /health")
    equal(got["docs_page"], [200, "text/html; charset=utf-8"], "/docs")
    events, kind = got["generated"]
    equal(events, ["x ", "y ", "[DONE]"], "/generate's events")
    truth(kind.startswith("text/event-stream"), "they are a stream", kind)
    part = got["part"]  # its model is for this document alone
    equal(sorted(part["properties"]), ["text", "type"], "fields of a part of a message")
    equal(part["required"], ["type", "text"], "those that it must have")
    equal(part["additionalProperties"], False, "whether it may have others")
    truth(
        "minisgl_prompt_tokens_total 30.0" in got["metrics"][2], "/metrics counts", got["metrics"]
    )
    truth(got["metrics"][1].startswith("text/plain"), "/metrics is text", got["metrics"][1])
    equal([got["left"], got["sent"]], [NOTHING, 6], "what is left, and requests that were sent")


def probe_a_stream_comes_piece_by_piece(seed):
    async def scene():
        async with stub_api(lambda msg: []) as (call, state, queues):
            options = {"stream": True, "stream_options": {"include_usage": True}, "n": 2}
            one = call(CHAT, chat("a", **options))
            await queues.settle()
            await queues.say(reply(0, "first"))
            early = [len(one.messages), len(one.events)]
            await queues.say(reply(1, "other", True), reply(0, "", num_tokens=0, finished=True))
            await one.whole()
            return [early, one.status, one.headers, one.events, queues.sent_as(), left_over(state)]

    return run(scene())


def judge_a_stream_comes_piece_by_piece(seed, got):
    early, status, headers, events, sent, left = got
    equal(early, [2, 3], "messages and events once the first piece is there: roles, and it")
    equal([status, headers["cache-control"]], [200, "no-cache"], "status, and what is not kept")
    truth("content-length" not in headers, "nobody knows its length", headers)
    *chunks, usage, done = events
    equal(done, "[DONE]", "the last event")
    equal([usage["choices"], usage["usage"]["completion_tokens"]], [[], 2], "the tokens' event")
    texts = {0: "", 1: ""}
    for chunk in chunks:
        choice = chunk["choices"][0]
        texts[choice["index"]] += choice["delta"].get("content", "")
    equal(texts, {0: "first", 1: "other"}, "the texts of both answers")
    equal(sent, [["TokenizeMsg", 0], ["TokenizeMsg", 1]], "what was sent, no abort in it")
    equal(left, NOTHING, "what is left")


def probe_what_goes_wrong_has_its_status_before_a_stream_and_an_event_in_it(seed):
    async def scene():
        async with stub_api() as (call, state, queues):
            calls = [
                call(CHAT, chat(words, stream=stream))
                for words in ("refuse", "fail early")
                for stream in (False, True)
            ]
            calls.append(call(CHAT, chat("begin early", stream=True)))
            await queues.settle()
            await queues.say(error(state.uid_counter - 1, "it broke"))
            for each in calls:
                await each.whole()
            found = [shown(each) for each in calls[:4]]
            late = [calls[4].status, calls[4].events[-2:]]
            waits = call(CHAT, chat("wait"))
            streams = call(CHAT, chat("begin a", stream=True))
            await queues.settle()
            state.fail("the scheduler has died")
            await asyncio.gather(waits.whole(), streams.whole())
            found.append(shown(waits))
            found += [
                shown(await call(path, body).whole())
                for path, body in (("/health", None), (CHAT, chat("say a")))
            ]
            return [found, late, streams.events[-1], left_over(state)]

    return run(scene())


def judge_what_goes_wrong_has_its_status_before_a_stream_and_an_event_in_it(seed, got):
    found, late, last, left = got
    equal([status for status, _ in found], [400, 400, 500, 500, 503, 503, 503], "statuses")
    dead = ["the scheduler has died"] * 3
    sentences = ["the prompt is too long"] * 2 + ["it broke", "it broke", *dead]
    equal([said(body) for _, body in found], sentences, "sentences")
    equal(late[0], 200, "a stream that has begun")
    equal([said(event) for event in late[1][-1:]], ["it broke"], "its last event, with no DONE")
    equal(said(last), "the scheduler has died", "a stream while a worker dies")
    equal(left, NOTHING, "what is left")


def probe_a_client_that_leaves_frees_its_requests(seed):
    async def scene():
        async with stub_api(lambda msg: []) as (call, state, queues):
            calls = [
                call(CHAT, chat("a", n=2)),
                call(CHAT, chat("a", stream=True)),
                call(CHAT, chat("a", stream=True)),
            ]
            await queues.settle()
            await queues.say(reply(0, "begun"), reply(3, "begun"))
            began = [one.status for one in calls]
            for one in calls:
                one.leave()
            await queues.settle()
            ended = [one.task.done() for one in calls]
            for one in calls:
                await one.whole()
            statuses = [one.status for one in calls]
            sent, left = queues.sent_as()[4:], left_over(state)
            return [began, ended, statuses, sent, left, len(asyncio.all_tasks())]

    return run(scene())


def judge_a_client_that_leaves_frees_its_requests(seed, got):
    began, ended, statuses, sent, left, tasks = got
    equal(began, [None, None, 200], "responses that have begun")
    equal(ended, [True] * 3, "whether each call ends at once when its client leaves")
    equal(statuses, [499, 499, 200], "what stands in the log for a client that has gone")
    equal(sorted(sent), [["AbortMsg", uid] for uid in range(4)], "each request is aborted once")
    equal(left, NOTHING, "what is left")
    equal(tasks, 2, "tasks: this one, and the listener")


def probe_work_is_cancelled_once_when_its_client_goes(seed):
    from minisgl.server.asgi import ClientGone, while_there

    async def work(seen: list[str]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0.05)
            seen.append("cleaned up")
            raise

    async def goes() -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def stays() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def ends(how: Exception | None = None) -> str:
        await asyncio.sleep(0.05)
        if how is not None:
            raise how
        return "done"

    async def scene() -> list[Any]:
        gone: list[str] = []
        found = await asyncio.gather(
            while_there(goes, work(gone)),
            while_there(stays, ends()),
            while_there(stays, ends(KeyError("x"))),
            return_exceptions=True,
        )
        kinds = [each if isinstance(each, str) else type(each).__name__ for each in found]
        told: list[str] = []
        outer = asyncio.create_task(while_there(stays, work(told)))
        await asyncio.sleep(0.05)
        outer.cancel()
        [end] = await asyncio.gather(outer, return_exceptions=True)
        left = len(asyncio.all_tasks())
        return [kinds, gone, type(end).__name__, told, left, ClientGone.__name__]

    return run(scene())


def judge_work_is_cancelled_once_when_its_client_goes(seed, got):
    kinds, gone, end, told, left, name = got
    equal(kinds, [name, "done", "KeyError"], "a client that goes, work that ends, work that fails")
    equal(gone, ["cancelled", "cleaned up"], "what work sees whose client goes")
    equal([end, told], ["CancelledError", gone], "the same when the server ends it")
    equal(left, 1, "tasks that are left beside this one")


def probe_a_client_that_stalls_is_let_go(seed):
    async def scene():
        async with stub_api(lambda msg: [], send_timeout=0.5) as (call, state, queues):
            one = call(CHAT, chat("a", stream=True), takes=2)
            await queues.settle()
            await queues.say(reply(0, "begun"))
            await queues.say(reply(0, "more"))
            before = [one.task.done(), sorted(state.ack_map)]
            await one.whole()
            return [before, len(one.messages), queues.sent_as()[1:], left_over(state)]

    return run(scene())


def judge_a_client_that_stalls_is_let_go(seed, got):
    before, messages, sent, left = got
    equal(before, [False, [0]], "at first it is waited for")
    equal(messages, 2, "messages that it took")
    equal([sent, left], [[["AbortMsg", 0]], NOTHING], "its request is aborted and forgotten")


def probe_a_key_is_asked_for(seed):
    async def scene():
        async with stub_api(api_key="s3cret") as (call, state, queues):
            given = [None, "s3cret", "Basic s3cret", "Bearer wrong", "Bearer s3cre", "Bearer "]
            given += ["Bearer s3cret", "bearer  s3cret"]
            calls = [
                call("/v1/models", headers={"authorization": key} if key else {}) for key in given
            ]
            calls += [
                call("/health"),
                call("/metrics"),
                call("/nowhere"),
                call(CHAT, chat("say a")),
            ]
            for one in calls:
                await one.whole()
            return [
                [one.status for one in calls],
                calls[0].json,
                calls[0].headers,
                queues.sent_as(),
            ]

    return run(scene())


def judge_a_key_is_asked_for(seed, got):
    statuses, body, headers, sent = got
    equal(statuses[:8], [401] * 6 + [200] * 2, "no key, wrong ones, right ones")
    equal(statuses[8:], [200, 401, 401, 401], "/health is open; all else is not")
    truth("Authorization: Bearer KEY" in said(body), "it says how to send it", body)
    equal(body["error"]["code"], "invalid_api_key", "code")
    equal(headers["www-authenticate"], "Bearer", "header")
    equal(sent, [], "requests without a key that went further")


def probe_the_gate_is_for_requests_alone(seed):
    from minisgl.server.asgi import Gate

    passed: list[list[Any]] = []

    async def app(*given: Any) -> None:
        passed.append(list(given))

    given: list[Any] = [{"type": "lifespan"}, "receive", "send"]
    run(Gate(app, stub_args(api_key="k"))(*given))
    return [passed, given]


def judge_the_gate_is_for_requests_alone(seed, got):
    equal(got[0], [got[1]], "the server's start and end go through as they are")


def probe_a_body_has_a_size_and_a_time(seed):
    async def scene():
        async with stub_api(max_body_bytes=2000, request_timeout=0.2) as (call, state, queues):
            long = chat("say a " + "b" * 2000)
            data = json.dumps(long).encode()
            exact = json.dumps(chat("say a")).encode().ljust(2000)
            calls = [
                call(CHAT, long, headers={"content-length": str(len(data))}),
                call(CHAT, parts=[data[:1000], data[1000:]]),
                call(CHAT, parts=[b" " * 1500, b" " * 501], more=True),
                call(CHAT, parts=[b"{"], more=True),
                call(CHAT, parts=[exact[:9], exact[9:]], headers={"content-length": "2000"}),
                call(CHAT, parts=[exact + b" "]),
                call(CHAT, parts=[b"{"], more=True),
            ]
            calls[-1].leave()
            for one in calls:
                await one.whole()
            return [[shown(one) for one in calls[:6]], calls[3].headers, calls[6].messages]

    return run(scene())


def judge_a_body_has_a_size_and_a_time(seed, got):
    found, headers, gone = got
    equal([status for status, _ in found], [413, 413, 413, 408, 200, 413], "statuses")
    equal(said(found[0][1]), "the body is larger than 2000 bytes", "an announced size")
    equal(said(found[2][1]), "the body is larger than 2000 bytes", "a body without an end")
    equal(said(found[3][1]), "the body did not arrive within 0.2 s", "a body that does not come")
    equal(headers["connection"], "close", "what is left of it is not read")
    equal(gone, [], "what is sent to a client that has left before the end of its body")


def probe_errors_have_one_shape(seed):
    async def scene():
        async with stub_api(max_waiting=2) as (call, state, queues):
            calls = [
                call("/v1/nothing"),
                call("/v1/chat/completions"),
                call("/v1/models/other"),
                call(CHAT, {**chat("say a"), "model": "other"}),
                call(COMPLETIONS, {**text("say a"), "model": "other"}),
                call(CHAT, parts=[b"{oh"]),
                call(CHAT, chat("say a", temperature=3)),
                call(CHAT, chat("say a", n=3)),
            ]
            for one in calls:
                await one.whole()
            waiting = [call(CHAT, chat("wait")) for _ in range(2)]
            await queues.settle()
            full = await call(CHAT, chat("say a")).whole()
            for one in waiting:
                one.leave()
            state.is_stopping = True
            stopping = [await call(*each).whole() for each in (("/health",), (CHAT, chat("say a")))]
            calls += [full, *stopping]
            return [[shown(one) for one in calls], full.headers]

    return run(scene())


def judge_errors_have_one_shape(seed, got):
    found, headers = got
    codes = [404, 405, 404, 404, 404, 400, 400, 400, 429, 503, 503]
    equal([status for status, _ in found], codes, "statuses")
    words = ["no such path", "doesn't take GET", "the model no/model and no other"]
    words += [words[2], words[2], "not valid JSON", "temperature must be at most 2"]
    words += ["only 2 may wait", "2 requests are waiting", "shutting down", "shutting down"]
    for (_, body), part in zip(found, words, strict=True):
        truth(part in said(body), f"the sentence has {part!r}", body)
    equal(found[2][1]["error"]["code"], "model_not_found", "code of an unknown model")
    equal(found[6][1]["error"]["param"], "temperature", "the field that is wrong")
    equal(found[8][1]["error"]["code"], "rate_limit_exceeded", "code of one too many")
    equal(headers["retry-after"], "1", "when to come again")


def probe_a_fault_says_nothing_of_what_it_saw(seed):
    async def scene():
        from minisgl.server import api_server

        fault = RuntimeError("the prompt was: my secret")
        with log_of("minisgl.server.api_server", "uvicorn.error") as lines:
            async with stub_api() as (call, state, queues):
                with mock.patch.object(api_server.ChatReply, "whole", side_effect=fault):
                    early = await call(CHAT, chat("say a")).whole()
                with mock.patch.object(api_server.ChatReply, "end", side_effect=fault):
                    late = await call(CHAT, chat("say a", stream=True)).whole()
                return [shown(early), late.messages[-1]["more_body"], lines, left_over(state)]

    return run(scene())


def judge_a_fault_says_nothing_of_what_it_saw(seed, got):
    (status, body), is_open, lines, left = got
    equal([status, said(body)], [500, "a fault in the server"], "a fault before the response")
    equal(is_open, True, "a stream with a fault is left without an end")
    equal(len(lines), 2, "lines of the log: one for each fault")
    for line in lines:
        truth("RuntimeError" in line and "File" in line, "the log says what and where", line)
        truth("secret" not in line, "the log does not quote it", line)
    equal(left, NOTHING, "what is left")


def probe_the_openapi_document_has_every_route(seed):
    async def scene():
        async with stub_api() as (call, _, _):
            document = (await call("/openapi.json").whole()).json
            return {
                f"{method} {path}": sorted(operation["responses"])
                for path, methods in document["paths"].items()
                for method, operation in methods.items()
            }

    return run(scene())


def judge_the_openapi_document_has_every_route(seed, got):
    routes = {"post /generate", f"post {CHAT}", f"post {COMPLETIONS}", "get /v1/models"}
    routes |= {"get /v1/models/{model}", "get /health", "get /metrics"}
    equal(sorted(got), sorted(routes), "the routes")
    for code in ("200", "400", "401", "404", "408", "413", "429", "503"):
        truth(code in got[f"post {CHAT}"], f"a chat may be answered with {code}", got)


def probe_routes_need_a_server(seed):
    from minisgl.server import api_server

    async def closing():
        async with stub_api() as (_, state, queues), api_server.lifespan(api_server.app):
            before = queues.is_closed
        return [before, queues.is_closed, api_server.get_global_state() is state]

    with mock.patch.object(api_server, "_GLOBAL_STATE", None):
        missing = error_of(api_server.get_global_state)
    return [missing, run(closing())]


def judge_routes_need_a_server(seed, got):
    missing, closed = got
    refused(missing, "a route without a server", "no server is running", kind="AssertionError")
    equal(closed, [False, True, True], "the queues are closed when the server ends, not before")


@contextmanager
def listening(app: Any, timeout: float) -> Iterator[int]:
    """The port of a server on the loopback address that waits so long for a header."""
    import uvicorn

    from minisgl.server.connection import make_protocol

    config = uvicorn.Config(
        app, port=0, http=make_protocol(timeout), log_level="critical", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


async def slow_app(scope: Any, receive: Any, send: Any) -> None:
    """Answers after 0.6 s."""
    await asyncio.sleep(0.6)
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


HEADER = b"GET / HTTP/1.1\r\nHost: x\r\n"


def until_closed(sock: socket.socket) -> list[Any]:
    """What comes until the server closes, and whether that took from 0.2 to 5 s."""
    began, data = time.monotonic(), b""
    while part := sock.recv(1000):
        data += part
    return [data.decode()[:15], 0.2 < time.monotonic() - began < 5]


def answer_of(sock: socket.socket) -> str:
    """The first line of an answer, once all of it is there."""
    data = b""
    while not data.endswith(b"ok") and (part := sock.recv(1000)):
        data += part
    return data.decode().partition("\r\n")[0]


def probe_a_header_must_come_in_time(seed):
    found = {}
    with listening(slow_app, 0.3) as port:
        for name, data in {"silent": b"", "halfway": HEADER, "whole": HEADER + b"\r\n"}.items():
            with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
                sock.sendall(data)
                if name == "whole":
                    found["answer"] = answer_of(sock)
                    sock.sendall(HEADER)
                found[name] = until_closed(sock)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(HEADER)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(HEADER + b"\r\n")
            found["later"] = answer_of(sock)
    return found


def judge_a_header_must_come_in_time(seed, got):
    for name in ("silent", "halfway", "whole"):
        equal(got[name], ["", True], f"a connection that is {name}: closed in time, with no answer")
    equal(got["answer"], "HTTP/1.1 200 OK", "an answer may take longer than a header")
    equal(got["later"], "HTTP/1.1 200 OK", "others are served as before")


def probe_a_header_without_an_end_ends_the_connection(seed):
    taken = 0
    with (
        listening(slow_app, 30) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as sock,
    ):
        sock.sendall(HEADER)
        with contextlib.suppress(ConnectionError):
            while taken < 64:  # megabytes
                sock.sendall(b"A: " + b"a" * (1 << 20) + b"\r\n")
                taken += 1
    with (
        listening(slow_app, 30) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as sock,
    ):
        sock.sendall(HEADER + b"A: " + b"a" * 30000)
        time.sleep(0.1)
        sock.sendall(b"\r\n\r\n")
        return [taken, answer_of(sock)]


def judge_a_header_without_an_end_ends_the_connection(seed, got):
    taken, answer = got
    truth(taken < 64, "megabytes of a header are not taken for ever", taken)
    equal(answer, "HTTP/1.1 200 OK", "a header of 30,000 bytes is taken")


def timers_of(data: bytes) -> list[int]:
    """How many timers run for a connection on which data came, and how many once it is lost."""
    from uvicorn import Config
    from uvicorn.server import ServerState

    from minisgl.server.connection import make_protocol

    async def scene() -> list[int]:
        loop, timers = asyncio.get_running_loop(), []
        call_at = loop.call_at

        def noted(*args: Any, **more: Any) -> asyncio.TimerHandle:
            timers.append(call_at(*args, **more))
            return timers[-1]

        transport = mock.Mock()
        transport.get_extra_info.return_value = None
        transport.is_closing.return_value = False
        config = Config(slow_app, log_config=None, lifespan="off")
        protocol = make_protocol(30)(config, ServerState(), {}, loop)
        counts = []
        with mock.patch.object(loop, "call_at", noted):
            protocol.connection_made(transport)
            protocol.data_received(data)
            await asyncio.sleep(0)
            counts.append(sum(not timer.cancelled() for timer in timers))
            protocol.connection_lost(None)
            await asyncio.sleep(0)
            counts.append(sum(not timer.cancelled() for timer in timers))
        return counts

    return run(scene())


def probe_a_connection_that_is_lost_leaves_no_timer(seed):
    return [timers_of(b""), timers_of(HEADER)]


def judge_a_connection_that_is_lost_leaves_no_timer(seed, got):
    for what, (open_, lost) in zip(("silent", "halfway"), got, strict=True):
        truth(open_ > 0, f"a connection that is {what} has its time", open_)
        equal(lost, 0, f"timers of a {what} connection that is lost")
