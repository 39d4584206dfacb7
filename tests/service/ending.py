"""Servers that a test ends, in whatever way, and what must be gone afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from wire import until

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT = 90.0


@dataclass
class Ending:
    """A server in a process group of its own. folder: for its temporary files and its log."""

    process: psutil.Popen
    folder: Path
    family: dict[int, psutil.Process] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """All that the server and its workers have written."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def port(self) -> int:
        """The port, once the server has said which one it has."""
        found = re.search(r"ready at http://[^ :]*:(\d+)", self.log)
        assert found is not None, f"the server is not ready:\n{self.log}"
        return int(found[1])

    def wait_until_ready(self) -> None:
        """Return when requests are taken; AssertionError when it ends before that."""

        def is_ready() -> bool:
            assert self.process.poll() is None, f"the server did not start:\n{self.log}"
            return "ready at " in self.log

        until(is_ready, START_TIMEOUT, "a server that answers")
        self.see_family()

    def see_family(self) -> list[psutil.Process]:
        """Note and return all processes that the server has started and that are there now."""
        children = self.process.children(recursive=True)
        self.family |= {child.pid: child for child in children}
        return children

    def pid(self, worker: str) -> int:
        """The process of a worker, by the name that the log has."""
        return pids(self.log)[worker]

    def end(self, within: float) -> int:
        """Wait for the server's end and return its exit status; asserts that nothing is left."""
        status: int = self.process.wait(within)
        self.check_nothing_left()
        return status

    def check_nothing_left(self, within: float = 3) -> None:
        """Assert that no process, folder or shared memory is left."""
        until(lambda: not self.alive(), within, f"the end of {self.alive()}")
        until(lambda: not self.left(), 1, f"an empty folder instead of {self.left()}")

    def alive(self) -> list[psutil.Process]:
        """Those of its processes that still run. (An ended one may wait for an init to reap it.)"""
        found = []
        for each in self.family.values():
            with suppress(psutil.NoSuchProcess):
                if each.is_running() and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
        return found

    def left(self) -> list[str]:
        """The server's temporary files that are there; not the cache that torch keeps on GPUs."""
        names = [path.name for path in self.folder.iterdir()]
        return [name for name in names if name != "log" and not name.startswith("torchinductor_")]


def pids(log: str) -> dict[str, int]:
    """The workers of a server by name, as its log says."""
    found = re.search(r"processes: (.*)", log)
    assert found is not None, log
    return {name: int(pid) for name, pid in re.findall(r"([a-z]+(?: \d+)?) \((\d+)\)", found[1])}


@contextmanager
def ending_server(
    *args: str, model: str = "tiny-qwen3", env: dict[str, str] | None = None, ready: bool = True
) -> Iterator[Ending]:
    """Start `python -m minisgl` with args, and yield it once it answers (ready) or at once.

    Whatever the test has left of it is killed.
    """
    # a GPU would take bfloat16 by itself, in which the torch backend's first steps are slow
    command = [sys.executable, "-m", "minisgl", "--model", model, "--port", "0"]
    command += ["--dtype", "float32"]
    with tempfile.TemporaryDirectory(prefix="end-") as name:  # short: it holds sockets
        with (Path(name) / "log").open("wb") as log:
            process = psutil.Popen(
                [*command, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=environment(name) | (env or {}),
                start_new_session=True,  # so that a Ctrl-C reaches these processes and no others
            )
        server = Ending(process, Path(name))
        try:
            if ready:
                server.wait_until_ready()
            yield server
        finally:
            _kill(server)


def environment(folder: str) -> dict[str, str]:
    """This process's environment, for a server with its temporary files in folder."""
    ours = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": folder}
    return {key: value for key, value in os.environ.items() if key != "MINISGL_API_KEY"} | ours


def _kill(server: Ending) -> None:
    if server.process.poll() is None:
        server.see_family()
    for each in (server.process, *server.family.values()):
        if each.is_running():
            each.send_signal(signal.SIGKILL)
    server.process.wait(5)


def seconds(began: float) -> float:
    """Since began, as time.monotonic() has it."""
    return time.monotonic() - began
