"""What a server takes at most: bytes, seconds, requests that wait, clients without a key."""

from __future__ import annotations

import hmac
import json
import socket
import time
from collections.abc import Iterator

import psutil
import pytest
from ending import Ending, ending_server
from wire import LONG, Call, ask, body, is_idle, metrics, runs, until

from minisgl.server import asgi

LIMITS = {
    "--max-waiting": "1",
    "--max-running-requests": "1",
    "--max-body-bytes": "2000",
    "--request-timeout": "1",
    "--first-token-timeout": "1.5",
    "--api-key": "the key",
    "--num-tokenizer": "1",
}
KEY = {"Authorization": "Bearer the key"}
MARK = "wolpertinger"
"""What every prompt here says, and no log may."""


@pytest.fixture(scope="module")
def server() -> Iterator[Ending]:
    """A server with narrow limits; at its end, no log has a word of what it was asked."""
    args = [part for pair in LIMITS.items() for part in pair]
    with ending_server(*args, env={"MINISGL_LOG_LEVEL": "DEBUG"}) as server:
        yield server
        assert psutil.pid_exists(server.pid("scheduler"))
        server.process.terminate()
        assert server.end(within=5) == 0
        assert MARK not in server.log and "the key" not in server.log
        assert "Traceback" not in server.log


def _call(server: Ending, path: str = "/v1/completions", **fields: object) -> Call:
    given = body(f"A {MARK} came", **fields) if path.startswith("/v1/comp") else fields
    return Call(server.port, path, given or None, KEY)


def _numbers(server: Ending) -> dict[str, float]:
    return metrics(server.port, KEY)


def _until_idle(server: Ending) -> None:
    until(
        lambda: not _numbers(server)["running_requests"] + _numbers(server)["waiting_requests"],
        3,
        "an idle scheduler",
    )


def _busy(server: Ending) -> Call:
    """A stream that has the only row for some seconds."""
    _until_idle(server)
    call = _call(server, stream=True, **LONG)
    call.take(1)
    return call


def test_who_finds_too_many_waiting_is_told_to_come_again(server: Ending) -> None:
    running = _busy(server)
    waiting = _call(server)
    until(lambda: _numbers(server)["waiting_requests"] == 1, 2, "a request that waits")
    for call in (_call(server), _call(server, stream=True)):
        assert call.status == 429
        assert float(call.response.headers["Retry-After"]) >= 1
        error = call.error()
        assert error["type"] == "rate_limit_error" and error["code"] == "rate_limit_exceeded"
    running.leave()
    assert waiting.status == 200 and waiting.json()["choices"]


def test_more_answers_than_may_ever_wait_are_an_error_of_the_request(server: Ending) -> None:
    call = _call(server, n=2)
    assert call.status == 400
    assert call.error()["param"] == "n"


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_does_not_begin_in_time_is_given_up(server: Ending, stream: bool) -> None:
    running = _busy(server)
    began = time.monotonic()
    late = _call(server, stream=stream)
    assert late.status == 503 and 1.4 < time.monotonic() - began < 2.5
    assert late.response.headers["Retry-After"] and "1.5 s" in late.error()["message"]
    until(lambda: _numbers(server)["waiting_requests"] == 0, 2, "an empty queue")
    running.leave()


def _raw(server: Ending, *parts: bytes, pause: float = 0) -> tuple[bytes, float]:
    """Send bytes as they are, with pauses; return all that comes back until the end, and when."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        for part in parts:
            sock.sendall(part)
            time.sleep(pause)
        data = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    return data, time.monotonic() - began


def _head(path: str = "/v1/completions", **headers: object) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += ["Host: a", "Content-Type: application/json", "Authorization: Bearer the key"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode()


def _error(data: bytes) -> tuple[int, str]:
    """The status and the message of an error that came as bytes."""
    head, _, rest = data.partition(b"\r\n\r\n")
    error = json.loads(rest)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return int(head.split()[1]), error["message"]


def test_a_body_that_is_announced_too_large_is_refused_unread(server: Ending) -> None:
    data, took = _raw(server, _head(Content_Length=2001))
    assert _error(data) == (413, "the body is larger than 2000 bytes") and took < 1.9


def test_a_body_of_unknown_length_is_refused_once_it_is_too_large(server: Ending) -> None:
    chunk = b"258\r\n" + 600 * b" " + b"\r\n"
    data, took = _raw(server, _head(Transfer_Encoding="chunked"), *4 * [chunk])
    assert _error(data) == (413, "the body is larger than 2000 bytes") and took < 1.9


@pytest.mark.parametrize("size", [10_000, 3_000_000])
def test_who_sends_all_of_a_large_body_still_reads_why(server: Ending, size: int) -> None:
    data, _ = _raw(server, _head(Content_Length=size) + size * b" ")
    assert _error(data)[0] == 413


def test_a_body_of_just_the_limit_is_taken(server: Ending) -> None:
    raw = json.dumps(body()).encode()
    for padding, status in ((2000, 200), (2001, 413)):
        call = Call(server.port, body=raw.ljust(padding), headers=KEY)
        assert call.status == status, call.text()


def test_a_body_that_comes_too_slowly_times_out(server: Ending) -> None:
    data, took = _raw(server, _head(Content_Length=100), b"{", pause=0.3)
    assert _error(data) == (408, "the body did not arrive within 1 s") and took < 3.5


@pytest.mark.parametrize("sent", [b"", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"])
def test_a_header_that_does_not_come_ends_the_connection(server: Ending, sent: bytes) -> None:
    data, took = _raw(server, sent)
    assert data == b"" and 0.9 < took < 2.5


def test_a_header_that_drips_ends_the_connection_too(server: Ending) -> None:
    with pytest.raises((ConnectionError, AssertionError)):
        _raw(server, _head(), *100 * [b"X: y\r\n"], pause=0.1)
        raise AssertionError("a connection may send a header for ever")


def test_only_who_has_the_key_is_answered(server: Ending) -> None:
    for headers in ({}, {"Authorization": "the key"}, {"Authorization": "Bearer the kez"}):
        for path, given in (("/v1/completions", body(MARK)), ("/metrics", None), ("/no", None)):
            call = Call(server.port, path, given, headers)
            assert call.status == 401 and call.response.headers["WWW-Authenticate"] == "Bearer"
            assert call.error()["code"] == "invalid_api_key"
    assert Call(server.port, "/health").json() == {"status": "ok"}
    assert (
        Call(server.port, "/v1/models", headers={"Authorization": "bearer the key"}).status == 200
    )
    strange = {"Authorization": "Bearer \xfc\xff"}
    assert Call(server.port, "/v1/models", headers=strange).status == 401


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compare_digest(a: bytes, b: bytes) -> bool:
        asked.append((a, b))
        return a == b

    class Config:
        api_key = "the key"

    monkeypatch.setattr(hmac, "compare_digest", compare_digest)
    gate = asgi.Gate(None, Config())  # type: ignore[arg-type]
    scope = {"path": "/v1/models", "headers": [(b"authorization", b"Bearer the kex")]}
    with pytest.raises(asgi.ApiError):
        gate._check_key(scope)
    assert asked == [(b"the kex", b"the key")]


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_no_log_has_a_word_of_a_request(level: str) -> None:
    with ending_server("--num-tokenizer", "1", env={"MINISGL_LOG_LEVEL": level}) as server:
        port = server.port
        message = {"role": "user", "content": MARK}
        chat = {"model": "tiny-qwen3", "messages": [message], "max_tokens": 4}
        good = [
            (chat, "/v1/chat/completions"),
            (chat | {"stream": True, "stop": [MARK]}, "/v1/chat/completions"),
            (body(MARK, stop=MARK), "/v1/completions"),
            ({"prompt": MARK, "max_tokens": 4}, "/generate"),
        ]
        bad = [
            (body(MARK, no_such=MARK), "/v1/completions"),
            (body(MARK, max_tokens=MARK), "/v1/completions"),
            (body(MARK) | {"model": MARK}, "/v1/completions"),
            (body(2000 * MARK), "/v1/completions"),
            (body([2**31 - 1]), "/v1/completions"),
            (chat | {"messages": [message | {"role": MARK}]}, "/v1/chat/completions"),
            (chat | {"messages": 9 * [message | {"role": "system"}]}, "/v1/chat/completions"),
            (b'{"prompt": "' + MARK.encode(), "/v1/completions"),
            (body(MARK), "/v1/nothing"),
        ]
        for given, path in good:
            assert Call(port, path, given).status == 200
        for given, path in bad:
            assert Call(port, path, given).status in (200, 400, 404), given
        leaver = Call(port, body=body(MARK, stream=True, **LONG))
        leaver.take(1)
        leaver.leave()
        until(lambda: is_idle(port), 2, "an idle scheduler")
        assert not runs(port) and ask(port)
        server.process.terminate()
        assert server.end(within=5) == 0
        assert MARK not in server.log and "Traceback" not in server.log
        assert "POST /v1/completions" in server.log
