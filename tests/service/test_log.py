"""What a server writes to its terminal."""

from __future__ import annotations

import re
import socket

from ending import ending_server
from wire import Call, ask

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] (INFO|WARNING) (\w+): (.+)")


def test_every_line_of_the_log_has_one_format_and_tells_what_happens() -> None:
    with ending_server() as server:
        ask(server.port, "a secret prompt")
        assert Call(server.port, "/nowhere").status == 404
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as odd:
            odd.sendall(b"no HTTP at all\r\n\r\n")
            assert odd.recv(1000).startswith(b"HTTP/1.1 400 ")
        url = f"http://127.0.0.1:{server.port}"
        server.process.terminate()
        assert server.end(within=8) == 0
        assert "secret" not in server.log
        found = [LINE.fullmatch(line) for line in server.log.splitlines()]
    assert all(found), found
    said = [f"{match[2]}: {match[3]}" for match in found if match is not None]
    ready = said.index(f"server: ready at {url} (API: /docs; Ctrl-C stops it)")
    assert said[0].startswith("server: loading ") and said[-1] == "server: stopped"
    assert {line.split(" after ")[0] for line in said[1:ready] if " after " in line} == {
        "server: detokenizer is ready",
        "server: scheduler is ready",
    }
    requests = [re.sub(r"127\S+ - ", "", line) for line in said[ready + 1 : -1]]
    assert requests == [
        'uvicorn: "POST /v1/completions HTTP/1.1" 200',
        'uvicorn: "GET /nowhere HTTP/1.1" 404',
        "uvicorn: Invalid HTTP request received.",
    ]
