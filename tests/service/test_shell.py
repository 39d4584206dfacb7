"""The chat in a terminal, as a person uses it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from ending import ROOT
from running import MODELS
from terminal import CTRL_C, CTRL_D, UP, Terminal, chat_environment, chatting

LONG = "Tell me a very long story about a dragon and a knight."


@pytest.fixture(scope="module")
def chat() -> Iterator[Terminal]:
    """A chat with smollm2; at the end Ctrl-D leaves it."""
    if not (MODELS / "smollm2-135m" / "config.json").is_file():
        pytest.skip("smollm2-135m isn't here (make models)")
    with chatting("minisgl.shell", model="smollm2-135m", MINISGL_SHELL_MAX_TOKENS="48") as terminal:
        intro = terminal.wait_for_prompt()
        assert "Chat with smollm2-135m." in intro and "/reset" in intro, intro
        yield terminal
        terminal.send(CTRL_D)
        assert terminal.end() == 0


def test_a_question_is_answered(chat: Terminal) -> None:
    assert "Paris" in chat.ask("What is the capital of France?")


def test_the_chat_is_remembered_until_it_begins_anew(chat: Terminal) -> None:
    chat.ask("/reset")
    assert "Paris" in chat.ask("What is the capital of France?")
    assert "Paris" in chat.ask("Say it again.")
    assert chat.ask("/reset") == "The chat begins anew."
    assert "Paris" not in chat.ask("Say it again.")


def test_the_arrow_brings_a_line_back(chat: Terminal) -> None:
    chat.ask("/reset")
    first = chat.ask("What is the capital of France?")
    chat.ask("/reset")
    for line in ("/reset", "What is the capital of France?"):
        chat.send(UP)
        chat.wait_for(f"> {line}")
    chat.enter()
    assert chat.wait_for_prompt() == first


def test_an_unknown_command_is_no_question(chat: Terminal) -> None:
    said = chat.ask("/help me")
    assert said.startswith("There is no command /help.") and "/reset" in said


def test_ctrl_c_stops_an_answer_and_the_next_question_works(chat: Terminal) -> None:
    chat.ask("/reset")
    chat.type(LONG)
    chat.wait_for(" ")
    began = time.monotonic()
    chat.send(CTRL_C)
    assert chat.wait_for_prompt().endswith(" [stopped]")
    assert time.monotonic() - began < 2
    chat.ask("/reset")
    assert "Paris" in chat.ask("What is the capital of France?")


def test_ctrl_c_at_the_prompt_clears_the_line(chat: Terminal) -> None:
    chat.send(b"never asked")
    chat.wait_for("> never asked")
    chat.first += 1
    chat.send(CTRL_C)
    assert chat.wait_for_prompt() == ""
    assert chat.ask("/reset") == "The chat begins anew."


def _begin(chat: Terminal) -> None:
    """Ask the tiny model, whose answers go on and on, and wait for the answer's beginning."""
    chat.wait_for_prompt()
    chat.type("Hello")
    chat.wait_until(lambda: bool(chat.new.strip()), "an answer")


def _worker(chat: Terminal, name: str) -> psutil.Process:
    """The process of a worker, which the chat names while it starts."""
    found = re.search(rf"{name} \((\d+)\)", chat.screen.text())
    assert found is not None, chat.screen.text()
    return psutil.Process(int(found[1]))


@pytest.mark.parametrize(
    ("command", "worker"), [("minisgl.shell", "scheduler"), ("minisgl --shell-mode", "detokenizer")]
)
def test_a_worker_that_dies_ends_the_chat_with_a_sentence(command: str, worker: str) -> None:
    with chatting(*command.split(), MINISGL_SHELL_MAX_TOKENS="1000") as chat:
        _begin(chat)
        _worker(chat, worker).kill()
        assert chat.end() == 1
        last = chat.screen.text().strip().splitlines()[-1]
        assert last.startswith(f"error: the {worker} (process ") and "SIGKILL" in last, last


@pytest.mark.parametrize("when", ["at the prompt", "in an answer"])
def test_sigterm_ends_the_chat(when: str) -> None:
    with chatting("minisgl", "--shell-mode", MINISGL_SHELL_MAX_TOKENS="1000") as chat:
        if when == "in an answer":
            _begin(chat)
        else:
            chat.wait_for_prompt()
        chat.process.send_signal(signal.SIGTERM)
        assert chat.end() == 0
        assert termios.tcgetattr(chat.master)[3] & termios.ECHO, "the terminal shows what is typed"


@contextmanager
def _piped() -> Iterator[tuple[psutil.Popen, Path]]:
    with tempfile.TemporaryDirectory(prefix="pipe-") as name:
        process = psutil.Popen(
            [sys.executable, "-m", "minisgl.shell", "--model", str(MODELS / "tiny-qwen3")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=chat_environment(name) | {"MINISGL_SHELL_MAX_TOKENS": "8"},
        )
        try:
            yield process, Path(name)
        finally:
            if process.poll() is None:
                for each in [*process.children(recursive=True), process]:
                    each.kill()
            process.communicate()


def test_lines_may_come_through_a_pipe() -> None:
    with _piped() as (process, folder):
        out, err = process.communicate("Hello\n/reset\nHello", timeout=90)
        assert process.returncode == 0, err
        intro, first, reset, second = out.splitlines()
        assert intro.startswith("Chat with tiny-qwen3.") and first == second != ""
        assert reset == "The chat begins anew."
        assert "Traceback" not in err and not list(folder.iterdir())


def test_sigterm_ends_a_chat_whose_pipe_stays_open() -> None:
    with _piped() as (process, folder):
        assert process.stdout.readline().startswith("Chat with")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert "Traceback" not in process.stderr.read() and not list(folder.iterdir())
