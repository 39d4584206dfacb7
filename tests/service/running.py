"""A real server in processes of its own, for as long as a test needs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from openai import OpenAI

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("MINISGL_MODELS") or ROOT / "models")
START_TIMEOUT = 90.0
STOP_TIMEOUT = 20.0

_READY = re.compile(r"ready at (http://127\.0\.0\.1:\d+)")


@dataclass
class Running:
    """A server that answers at url; its folder holds all its temporary files, and its log."""

    process: psutil.Popen
    url: str
    folder: Path
    model: str

    @property
    def log(self) -> str:
        """All that the server and its workers have written."""
        return (self.folder / "log").read_text(errors="replace")

    def client(self, api_key: str = "none", **more: object) -> OpenAI:
        """Return OpenAI's client, which tries each request once."""
        given = {"timeout": 60.0, "max_retries": 0} | more
        return OpenAI(base_url=f"{self.url}/v1", api_key=api_key, **given)  # type: ignore[arg-type]

    def workers(self) -> list[psutil.Process]:
        """Return every process that the server has started, and those that these have."""
        return self.process.children(recursive=True)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status; asserts that nothing is left."""
        everyone = [self.process, *self.workers()]
        shared = {path for each in everyone for path in _shared_memory(each)}
        self.process.terminate()
        status = self.process.wait(STOP_TIMEOUT)
        _, alive = psutil.wait_procs(everyone, timeout=3)
        assert not alive, f"these processes are left: {alive}"
        left = [str(path) for path in self.folder.glob("minisgl-server-*")]
        left += [path for path in shared if Path(path).exists()]
        assert not left, f"these files are left: {left}"
        return status


@contextmanager
def running_server(*args: str, model: str = "tiny-qwen3", status: int = 0) -> Iterator[Running]:
    """Start `python -m minisgl` with args, and yield it once it answers; end it with SIGTERM.

    Asserts that it ends with status and leaves nothing behind.
    """
    with tempfile.TemporaryDirectory(prefix="svc-") as name:  # short: it holds sockets
        folder = Path(name)
        command = [sys.executable, "-m", "minisgl", "--model", str(MODELS / model), "--port", "0"]
        # a GPU would take bfloat16 by itself, whose tokens can't be compared one by one
        command += ["--dtype", "float32"]
        with (folder / "log").open("wb") as log:
            process = psutil.Popen(
                [*command, *args],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=_environment(folder),
            )
        try:
            server = Running(process, _wait_until_ready(process, folder / "log"), folder, model)
            yield server
            assert server.process.poll() in (None, status), f"the server has ended:\n{server.log}"
            assert server.stop() == status, server.log
        finally:
            _kill(process)


def _environment(folder: Path) -> dict[str, str]:
    ours = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)}
    return {key: value for key, value in os.environ.items() if key != "MINISGL_API_KEY"} | ours


def _wait_until_ready(process: psutil.Popen, log: Path) -> str:
    """Return the server's address once /health is well."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end:
        text = log.read_text(errors="replace")
        assert process.poll() is None, f"the server did not start:\n{text}"
        if found := _READY.search(text):
            try:
                if httpx.get(f"{found[1]}/health", timeout=5).status_code == 200:
                    return found[1]
            except httpx.TransportError:
                pass
        time.sleep(0.1)
    raise AssertionError(f"the server was not ready within {START_TIMEOUT:g} s:\n{text}")


def _shared_memory(process: psutil.Process) -> set[str]:
    maps = Path(f"/proc/{process.pid}/maps")
    if not maps.is_file():
        return set()
    return set(re.findall(r"/dev/shm/\S+", maps.read_text()))


def _kill(process: psutil.Popen) -> None:
    """End what is still there after a failure: the server and what it started, nothing else."""
    if process.poll() is None:
        for each in [*process.children(recursive=True), process]:
            each.kill()
        process.wait(5)
