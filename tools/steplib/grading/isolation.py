"""How strictly this machine can lock code in: bubblewrap, namespaces, or limits alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.grading import libraries

if TYPE_CHECKING:
    from steplib.grading.schema import Isolation  # doctor runs where pydantic isn't there

LIMITS = {
    "RLIMIT_DATA": 4 << 30,  # bytes of one process; an engine with default settings takes 2.5 GB
    "RLIMIT_NPROC": 64,  # threads count, too
    "RLIMIT_FSIZE": 64 << 20,
    "RLIMIT_NOFILE": 1024,
    "RLIMIT_CORE": 0,
}
"""What one child may use."""

SCRATCH_BYTES = 512 << 20
_FIRST_USER = 61000
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives")
_SPACES = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
_TOOL = (
    "__init__.py", "apart.py", "apart_child.py", "child.py", "isolation.py", "jobs.py",
)  # fmt: skip
WARNINGS: dict[Isolation, str] = {
    "namespaces": "bubblewrap is missing, so code could read this machine's files; "
    "install bubblewrap (python tools/steps.py doctor).",
    "limits": "neither bubblewrap nor namespaces work here, so code could read this machine's "
    "files and use its network; install bubblewrap (python tools/steps.py doctor).",
}


@dataclass(frozen=True)
class Sandbox:
    """Where one child runs. readable: the files and folders of its work, under their own names.

    slot: runs side by side have different ones, and so different users and counts of processes.
    """

    kind: Isolation
    readable: tuple[Path, ...] = ()
    slot: int = 0

    @property
    def command(self) -> list[str]:
        """What to put before the interpreter."""
        if self.kind == "bubblewrap":
            return [*_bubblewrap(self.readable), *_as_nobody(self.slot)]
        if self.kind == "namespaces":
            as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
            spaces = ("--pid", "--mount-proc", "--net", "--ipc")
            return ["unshare", *as_root, "--fork", "--kill-child", *spaces, "--"]
        return []

    @property
    def is_alone(self) -> bool:
        """Whether its processes have a namespace of their own."""
        return self.kind != "limits"

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the person who grades."""
        return {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}


@cache
def strictest() -> Isolation:
    """The strictest kind that works here, found by trying."""
    kinds: tuple[Isolation, ...] = ("bubblewrap", "namespaces")
    return next((kind for kind in kinds if works(kind)), "limits")


def works(kind: Isolation) -> bool:
    """Whether a child can be started that way."""
    program = "bwrap" if kind == "bubblewrap" else "unshare"
    if shutil.which(program) is None:
        return False
    command = [*Sandbox(kind).command, sys.executable, "-I", "-c", "import json"]
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _bubblewrap(readable: Sequence[Path]) -> list[str]:
    memory = ("--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs")
    command = ["bwrap", *_SPACES, "--die-with-parent", "--new-session", "--proc", "/proc"]
    command += ["--dev", "/dev", *memory, "/dev/shm", *memory, "/tmp", *_rights()]
    for name in _SYSTEM:
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.exists(name):
            command += ["--ro-bind", name, name]
    shown = [*_interpreter(), *_tool(), *((path, path) for path in readable)]
    command += [word for folder in _around(shown) for word in ("--perms", "0755", "--dir", folder)]
    for source, place in shown:
        command += ["--ro-bind", str(source), str(place)]
    for source, place in libraries.replaced():
        command += ["--ro-bind", str(source), str(place)]
    return [*command, "--chdir", "/tmp", "--"]


def _rights() -> list[str]:
    """Root may change to another user, and nothing else; others have no right to begin with."""
    if os.geteuid() != 0:
        return ["--unshare-user"]
    kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
    return ["--cap-drop", "ALL", *(word for name in kept for word in ("--cap-add", name))]


def _as_nobody(slot: int) -> list[str]:
    """Root's processes are not counted, so that the limit on them needs another user."""
    if os.geteuid() != 0:
        return []
    user = str(_FIRST_USER + slot)
    rights = ("--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")
    return ["setpriv", "--reuid", user, "--regid", user, *rights]


def _interpreter() -> list[tuple[Path, Path]]:
    """Python and its packages, under their real name and under the one they are called by."""
    named = [Path(sys.prefix), Path(sys.base_prefix)]
    places = dict.fromkeys(place for path in named for place in (path.resolve(), path))
    return [(p.resolve(), p) for p in places if not p.is_relative_to("/usr")]


def _tool() -> list[tuple[Path, Path]]:
    folder = Path(__file__).resolve().parents[1]
    return [(folder / name, folder / name) for name in _TOOL]


def _around(shown: Sequence[tuple[Path, Path]]) -> list[str]:
    """The folders on the way; bubblewrap would make them unreadable for another user."""
    folders = {parent for _, place in shown for parent in place.parents}
    mounted = {Path(name) for name in ("/", "/tmp", "/dev", "/proc", "/usr")}
    inner = {place for _, place in shown}
    ours = (f for f in folders - mounted if not any(f.is_relative_to(p) for p in inner))
    return [str(folder) for folder in sorted(ours, key=lambda folder: len(folder.parts))]
