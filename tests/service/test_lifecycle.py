"""How a server starts, or says why it doesn't, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from ending import ROOT, Ending, ending_server, environment
from wire import LONG, Call, ask, body, until

from minisgl.server.args import ServerArgs, parse_args
from minisgl.server.options import make_parser
from pairs import public_bug

TINY = Path(os.environ.get("MINISGL_MODELS") or ROOT / "models") / "tiny-qwen3"


def _refused(*args: str, deep: str = "") -> tuple[int, str, float]:
    """Start a server that can't start: its status, the last line it says, and its CPU seconds.

    It must show no traceback and leave nothing. deep: of a folder for its temporary files.
    """
    command = [sys.executable, "-m", "minisgl", *args]
    with tempfile.TemporaryDirectory(prefix="end-") as name:  # short: sockets would lie in it
        folder = Path(name) / deep
        folder.mkdir(exist_ok=True)
        env, before = environment(str(folder)), os.times()
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=90
        )
        used = os.times().children_user - before.children_user
        assert not list(folder.iterdir()), "something is left"
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done.returncode, done.stderr.splitlines()[-1], used


def _damaged(folder: Path, *missing: str) -> Path:
    """A copy of the tiny model without some of its files."""
    shutil.copytree(TINY, folder, symlinks=False)
    for pattern in missing:
        for path in folder.glob(pattern):
            path.unlink()
    return folder


@public_bug("B95")
def test_missing_weights_are_named(tmp_path: Path) -> None:
    model = _damaged(tmp_path / "model", "*00002-of*")
    status, said, _ = _refused("--model", str(model), "--port", "0")
    assert status == 1 and said.startswith("error: the scheduler can't go on:")
    assert "model-00002-of-00003.safetensors is missing" in said


def _says(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What parsing refuses these arguments with: a sentence, with status 2."""
    with pytest.raises(SystemExit) as caught:
        parse_args(list(args))
    usage, said = capsys.readouterr().err.splitlines()
    assert caught.value.code == 2 and usage.startswith("usage: ")
    return said.removeprefix("python -m minisgl: error: ")


@public_bug("B95")
@pytest.mark.parametrize("name", ["/no/such", "./no", "models/typo", "no-such", "../x/y", "a/b/c"])
def test_a_wrong_path_is_refused_before_anything_starts(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _says(capsys, "--model", name).startswith(f"there is no model '{name}'")


def test_a_folder_must_hold_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert "no config.json" in _says(capsys, "--model", str(tmp_path / "empty"))
    for i, text in enumerate(("{", "[]", "", "\xff")):
        model = _damaged(tmp_path / f"corrupt {i}")
        (model / "config.json").write_text(text, encoding="latin-1")
        assert "can't be read as a JSON object" in _says(capsys, "--model", str(model))
    model = _damaged(tmp_path / "without tokenizer", "tokenizer*")
    assert "has no tokenizer" in _says(capsys, "--model", str(model))


def test_a_model_of_models_is_not_hidden_by_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINISGL_MODELS", str(TINY.parent.resolve()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-qwen3").mkdir()
    settings, _ = parse_args(["--model", "tiny-qwen3"])
    assert settings.model_path == str(TINY.resolve())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--port", "70000"), "--port"),
        (("--port", "x"), "--port"),
        (("--max-waiting", "0"), "--max-waiting"),
        (("--num-tokenizer", "-1"), "--num-tokenizer"),
        (("--shutdown-grace", "nan"), "--shutdown-grace"),
        (("--memory-ratio", "1.5"), "--memory-ratio"),
        (("--cache-type", "lru"), "--cache-type"),
        (("--dtype", "int4"), "--dtype"),
        (("--attention-backend", "none"), "none"),
        (("--model-source", "modelscope"), "not supported"),
        (("--tp", "2"), "chapter 16"),
        (("--moe-backend", "fused"), "chapter 20"),
        (("--cuda-graph-max-bs", "8"), "chapter 18"),
        (("--disable-pynccl",), "chapter 16"),
        (("--no-such",), "--no-such"),
        (("surplus",), "surplus"),
    ],
)
def test_an_option_that_can_not_be_is_refused_in_a_sentence(
    args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in _says(capsys, "--model", str(TINY), *args)


def test_the_process_says_only_that_sentence() -> None:
    status, said, used = _refused("--model", "/no/such")
    assert status == 2 and said.startswith("python -m minisgl: error: there is no model '/no/such'")
    assert used < 8, "a wrong path must be seen before a model is loaded"


@public_bug("B102")
def test_a_port_in_use_is_refused_before_the_model_is_loaded() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        status, said, used = _refused("--model", str(TINY), "--port", port)
    assert status == 1 and said.startswith(f"error: can't listen at 127.0.0.1:{port}: address")
    assert used < 8


@pytest.mark.parametrize("host", ["999.1.1.1", "no-such-host.invalid", "192.0.2.1"])
def test_a_host_that_is_none_of_this_machine_is_refused(host: str) -> None:
    args = ("--model", str(TINY), "--port", "0", "--host", host)
    status, said, _ = _refused(*args)
    assert status == 1 and said.startswith(f"error: can't listen at {host}:0: ")


def test_a_folder_for_sockets_that_is_too_deep_is_refused() -> None:
    status, said, _ = _refused("--model", str(TINY), "--port", "0", deep=90 * "x")
    assert status == 1 and "set TMPDIR to a short one" in said


def _defaults() -> list[str]:
    """Every option that has a default, with it."""
    actions = [each for each in make_parser()._actions if each.option_strings and each.nargs != 0]
    pairs = [(each.option_strings[0], each.default) for each in actions if each.default is not None]
    return [part for name, value in pairs for part in (name, str(value))]


@public_bug("B101")
def test_every_option_takes_its_own_default() -> None:
    given = _defaults() + ["--model", str(TINY)]
    assert parse_args(given) == parse_args(["--model", str(TINY)])
    assert len(given) > 40


@public_bug("B101", "B102")
def test_two_servers_at_once_with_every_default_given() -> None:
    given = _defaults() + ["--model", "tiny-qwen3", "--port", "0"]
    with ending_server(*given) as one, ending_server("--dtype", "auto") as two:
        assert one.port != two.port
        assert ask(one.port) == ask(two.port)
        one.process.terminate()
        assert one.end(within=5) == 0
        assert ask(two.port)
        two.process.terminate()
        assert two.end(within=5) == 0


def _stop(server: Ending, how: str) -> None:
    if how == "SIGTERM":
        server.process.send_signal(signal.SIGTERM)
    else:  # a terminal sends it to every process of the group
        os.killpg(server.process.pid, signal.SIGINT)


@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
def test_what_runs_may_end_within_the_grace(how: str) -> None:
    with ending_server("--num-tokenizer", "1") as server:
        stream = Call(server.port, body=body(stream=True, **LONG | {"max_tokens": 400}))
        events = stream.events()
        next(events)
        whole = Call(server.port, body=body("At noon", **LONG | {"max_tokens": 300}))
        until(lambda: "minisgl" in Call(server.port, "/metrics").text(), 2, "metrics")
        time.sleep(0.2)
        _stop(server, how)
        until(lambda: Call(server.port, "/health").status == 503, 1, "a bad health")
        late = Call(server.port, body=body())
        assert late.status == 503 and "shutting down" in late.error()["message"]
        assert whole.json()["usage"]["completion_tokens"] == 300
        *_, last_but_one, last = events
        assert last == "[DONE]" and last_but_one["choices"][0]["finish_reason"] == "length"
        assert server.end(within=5) == 0
        assert "Traceback" not in server.log


@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
def test_what_does_not_end_within_the_grace_gets_an_error(how: str) -> None:
    with ending_server("--shutdown-grace", "0.5", "--max-prefill-length", "1") as server:
        stream = Call(server.port, body=body(stream=True, n=8, **LONG))
        events = stream.events()
        next(events)
        whole = Call(server.port, body=body("At noon", n=8, **LONG))
        time.sleep(0.3)
        _stop(server, how)
        *_, last = events
        assert "shutting down" in last["error"]["message"]
        assert whole.status == 503 and "shutting down" in whole.error()["message"]
        assert server.end(within=5) == 0
        assert "Traceback" not in server.log


@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
def test_a_second_signal_ends_the_grace(how: str) -> None:
    with ending_server("--shutdown-grace", "60") as server:
        call = Call(server.port, body=body(stream=True, n=16, **LONG))
        call.take(1)
        _stop(server, how)
        until(lambda: Call(server.port, "/health").status == 503, 1, "a bad health")
        _stop(server, how)
        began = time.monotonic()
        assert server.end(within=4) == 0
        assert time.monotonic() - began < 4


@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C"])
@pytest.mark.parametrize("phase", ["import", "workers", "loading"])
def test_a_signal_during_start_up_leaves_nothing(how: str, phase: str) -> None:
    with ending_server(ready=False) as server:
        if phase == "import":
            time.sleep(1)
        else:
            until(lambda: "processes: " in server.log, 60, "the start of the workers")
        if phase == "loading":
            until(lambda: "is ready after" in server.log, 60, "a first worker")
        server.see_family()
        _stop(server, how)
        status = server.end(within=8)
        assert status in (0, 130, -signal.SIGTERM, -signal.SIGINT)
        if phase != "import":
            assert "Traceback" not in server.log, server.log


def test_the_socket_folder_is_private() -> None:
    with ending_server() as server:
        (folder,) = [path for path in server.folder.iterdir() if path.name != "log"]
        assert folder.stat().st_mode & 0o777 == 0o700
        server.process.terminate()
        assert server.end(within=5) == 0


def test_a_port_of_0_is_printed_with_the_host() -> None:
    settings, _ = parse_args(["--model", str(TINY), "--port", "0"])
    assert isinstance(settings, ServerArgs) and settings.server_host == "127.0.0.1"
    with ending_server("--host", "localhost") as server:
        assert f"http://127.0.0.1:{server.port}" in server.log
        listening = psutil.Process(server.process.pid).net_connections("tcp")
        assert [c.laddr.port for c in listening if c.status == "LISTEN"] == [server.port]
        server.process.terminate()
        assert server.end(within=5) == 0
