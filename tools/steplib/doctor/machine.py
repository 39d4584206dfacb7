"""The machine: system, Python, disk, memory, processors, permissions."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from steplib.doctor.findings import Finding, note, ok, problem
from steplib.errors import UserError
from steplib.grading import isolation
from steplib.models import models_dir
from steplib.paths import ROOT, shown

GIGABYTE = 1 << 30
LEAST_PYTHON = (3, 11)
LEAST_DISK, GOOD_DISK = 1.0, 4.0  # GB: the smallest set-up, and one with room for a site
LEAST_MEMORY, GOOD_MEMORY = 3.0, 6.0  # GB: one child and the oracle on SmolLM2; two at a time


def refuse_unsupported(system: str, machine: str) -> None:
    """UserError on a system for which no supported PyTorch exists."""
    if system == "Windows":
        raise UserError("Windows is supported through WSL only; install WSL and run this there.")
    if system == "Darwin" and machine != "arm64":
        raise UserError(
            f"macOS on {machine} is not supported, since PyTorch has no build for it; "
            "use a Mac with Apple silicon, or Linux."
        )
    if system not in ("Linux", "Darwin"):
        raise UserError(f"{system} is not supported; use Linux, macOS on arm64, or WSL.")


def findings() -> list[Finding]:
    """All of them, in the order in which a reader would mend them."""
    free = shutil.disk_usage(ROOT).free / GIGABYTE
    return [
        ok("system", f"{platform.system()} {platform.release()} on {platform.machine()}"),
        python(sys.version_info[:3]),
        write_access((ROOT, ROOT / ".cache", models_dir(), Path(tempfile.gettempdir()))),
        disk(free),
        memory(total_memory()),
        threads(usable_processors(), os.environ.get("OMP_NUM_THREADS")),
        bubblewrap(isolation.strictest()),
    ]


def python(version: tuple[int, ...]) -> Finding:
    """Python itself."""
    text = ".".join(map(str, version))
    if version[:2] >= LEAST_PYTHON:
        return ok("Python", f"{text} ({sys.executable})")
    return problem("Python", f"{text} is too old", "install Python 3.11 or newer and rerun make")


def disk(free: float) -> Finding:
    """Free space where the repository lies, in GB."""
    text = f"{free:.1f} GB free"
    if free < LEAST_DISK:
        return problem("disk", text, f"make room: at least {LEAST_DISK:.0f} GB is needed")
    if free < GOOD_DISK:
        return note("disk", text, f"a full set-up takes about {GOOD_DISK:.0f} GB")
    return ok("disk", text)


def memory(total: float) -> Finding:
    """Main memory in GB."""
    text = f"{total:.1f} GB"
    if total < LEAST_MEMORY:
        return problem("memory", text, f"at least {LEAST_MEMORY:.0f} GB is needed")
    if total < GOOD_MEMORY:
        return note("memory", text, "run `check -j 1`, one chapter at a time")
    return ok("memory", text)


def total_memory() -> float:
    """Main memory in GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE


def threads(processors: int, wanted: str | None) -> Finding:
    """Processors that this process may use, and the thread count that the environment asks for."""
    text = f"{processors} usable processor{'' if processors == 1 else 's'}"
    if wanted is None:
        return ok("threads", text)
    if not wanted.isdigit() or int(wanted) > processors:
        mend = "run `unset OMP_NUM_THREADS`: more threads than processors are slow"
        return note("threads", f"{text}, OMP_NUM_THREADS={wanted}", mend)
    return ok("threads", f"{text}, OMP_NUM_THREADS={wanted}")


def usable_processors() -> int:
    """Those that this process is allowed to run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def write_access(folders: tuple[Path, ...]) -> Finding:
    """Whether files can be made where the tools make them."""
    for folder in folders:
        existing = folder
        while not existing.exists():
            existing = existing.parent
        try:
            tempfile.TemporaryFile(dir=existing).close()
        except OSError as error:
            place = shown(existing, ROOT)
            why = error.strerror or str(error)
            return problem("write access", f"{place}: {why}", f"make {place} writable for you")
    return ok("write access", "repository, .cache, models and temporary files")


def bubblewrap(kind: str) -> Finding:
    """What `grade` locks submissions in; nothing else needs it. kind: isolation.strictest()."""
    if kind == "bubblewrap":
        return ok("bubblewrap", "works; grade uses it")
    text = f"missing, or not allowed to work here; grade would make do with {kind}"
    return note("bubblewrap", text, "if you grade, install it: apt-get install bubblewrap")
