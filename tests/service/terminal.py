"""A chat in a pseudo-terminal: what a person types into it, and what a person sees."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from ending import ROOT, environment
from running import MODELS

CTRL_C, CTRL_D, UP = b"\x03", b"\x04", b"\x1b[A"
PROMPT = "> "
TIMEOUT = 60.0

_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[=>78]|(.)", re.DOTALL)


class Screen:
    """The lines that a terminal shows, all that have scrolled away included; none is too long."""

    def __init__(self) -> None:
        self.lines, self.row, self.column = [""], 0, 0
        self._rest = ""

    def write(self, text: str) -> None:
        """Show text, with the few controls that a chat uses."""
        text, self._rest = self._rest + text, ""
        for piece in _PIECE.finditer(text):
            count, control, char = piece.groups()
            if char == "\x1b":  # the rest of it is still to come
                self._rest = text[piece.start() :]
                return
            if char is not None:
                self._put(char)
            elif control is not None:
                self._move(control, count)

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char == "\n":
            self.row += 1
            self.lines += [""] * (self.row + 1 - len(self.lines))
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    def _move(self, control: str, count: str) -> None:
        step = int(count) if count.isdigit() and int(count) else 1
        if control == "C":
            self.column += step
        elif control == "D":
            self.column = max(0, self.column - step)
        elif control == "A":
            self.row = max(0, self.row - step)
        elif control == "B":
            self.row += step
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif control in "JK" and count in ("", "0"):
            self.lines[self.row] = self.lines[self.row][: self.column]
            if control == "J":
                del self.lines[self.row + 1 :]

    def text(self, first: int = 0) -> str:
        """Return the lines from the first on."""
        return "\n".join(self.lines[first:])


@dataclass
class Terminal:
    """A process with a terminal of its own. first: the line from which on it is looked at."""

    process: psutil.Popen
    master: int
    folder: Path
    screen: Screen = field(default_factory=Screen)
    first: int = 0
    family: list[psutil.Process] = field(default_factory=list)

    @property
    def new(self) -> str:
        """What is shown from the first line on."""
        return self.screen.text(self.first)

    def read(self, seconds: float) -> bool:
        """Take what has come, waiting at most so long; False at the end of all output."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            raw = os.read(self.master, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            return False
        self.screen.write(raw.decode(errors="replace"))
        return bool(raw)

    def wait_until(self, holds: Callable[[], bool], what: str, timeout: float = TIMEOUT) -> None:
        """Read until holds() is true; AssertionError at the end of the output or of the time."""
        end = time.monotonic() + timeout
        while not holds():
            is_open = self.read(0.1)
            is_over = not is_open or time.monotonic() > end
            assert holds() or not is_over, f"{what} is not there, but:\n{self.screen.text()}"

    def wait_for(self, text: str) -> None:
        """Wait until text is shown."""
        self.wait_until(lambda: text in self.new, repr(text))

    def wait_for_prompt(self) -> str:
        """Wait until a line can be typed; return what is shown above it, and look only below."""
        screen = self.screen

        def is_there() -> bool:
            is_empty = screen.lines[screen.row].strip() == PROMPT.strip()
            return screen.row >= self.first and is_empty and screen.column == len(PROMPT)

        self.wait_until(is_there, "a prompt")
        self.family = self.process.children(recursive=True)
        said = "\n".join(screen.lines[self.first : screen.row])
        self.first = screen.row
        return said

    def send(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def type(self, line: str) -> None:
        """Type a line, wait until it is shown, and look only below it."""
        self.send(line.encode())
        self.wait_for(f"{PROMPT}{line}")
        self.enter()

    def enter(self) -> None:
        """Send the line that stands at the prompt."""
        self.first = self.screen.row + 1
        self.send(b"\r")

    def ask(self, line: str) -> str:
        """Type a line, and return what is shown before the next prompt."""
        self.type(line)
        return self.wait_for_prompt()

    def end(self, within: float = 10) -> int:
        """Wait for the end, and return the exit status; asserts that nothing is left."""
        until = time.monotonic() + within
        while self.read(0.1) and time.monotonic() < until:
            pass
        status: int = self.process.wait(within)
        _, alive = psutil.wait_procs(self.family, timeout=3)
        assert not alive, f"these processes are left: {alive}"
        assert not list(self.folder.iterdir()), "files are left"
        assert "Traceback" not in self.screen.text(), self.screen.text()
        return status


@contextmanager
def chatting(*command: str, model: str = "tiny-qwen3", **env: str) -> Iterator[Terminal]:
    """Run `python -m` command with a model in a terminal; what is left of it is killed."""
    with tempfile.TemporaryDirectory(prefix="tty-") as name:  # short: it holds sockets
        master, slave = pty.openpty()
        process = psutil.Popen(
            [sys.executable, "-m", *command, "--model", str(MODELS / model)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env=chat_environment(name) | env,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        terminal = Terminal(process, master, Path(name))
        try:
            yield terminal
        finally:
            _kill(terminal)
            os.close(master)


def chat_environment(folder: str) -> dict[str, str]:
    """The environment of a chat that always takes the best token."""
    ours = {"MINISGL_SHELL_TEMPERATURE": "0", "TERM": "xterm-256color", "COLUMNS": "100"}
    # A real terminal says where its cursor is; this one can't, which prompt_toolkit would mention.
    return environment(folder) | ours | {"PROMPT_TOOLKIT_NO_CPR": "1"}


def _take_terminal() -> None:
    """Make stdin the terminal that Ctrl-C comes from; runs in the new process."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    termios.tcsetwinsize(0, (40, 100))


def _kill(terminal: Terminal) -> None:
    process = terminal.process
    left = process.children(recursive=True) if process.is_running() else []
    for each in [*left, *terminal.family, process]:
        if each.is_running():
            each.kill()
    process.wait(5)
