"""Building, showing and publishing the handbook's site."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from steplib.errors import UserError

STAMP = ".handbook"
"""A file in every built site; a folder that carries it may be replaced by a newer one."""

_ZIP_TIME = (2000, 1, 1, 0, 0, 0)  # the same bytes for the same site


class BuildFailed(Exception):
    """The strict build found something wrong; the message is what mkdocs said."""


def build(root: Path, into: Path, commit: str = "", offline: bool = False) -> None:
    """Build the site strictly into `into`, completely or not at all. Raises BuildFailed."""
    _demand_mkdocs()
    _demand_ours(into)
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{into.name}.", dir=into.parent) as draft:
        built = Path(draft) / "site"
        _run_mkdocs(root, built, commit, offline)
        (built / STAMP).write_text(f"{commit or 'working copy'}\n", encoding="utf-8")
        (built / ".nojekyll").touch()
        built.chmod(0o755)
        _replace(into, built)


def serve(root: Path, port: int) -> int:
    """Show the pages on this machine and follow changes, until Ctrl-C."""
    _demand_mkdocs()
    command = _mkdocs("serve", "--no-strict", "--dev-addr", f"127.0.0.1:{port}")
    with suppress(KeyboardInterrupt):
        return subprocess.run(command, cwd=root, env=_environment("", False)).returncode
    return 0


def archive(root: Path, file: Path, commit: str) -> None:
    """A zip whose pages and search work when they are opened from a disk."""
    with _beside(file) as draft:
        folder = Path(draft) / "handbook"
        build(root, folder, commit, offline=True)
        packed = Path(draft) / "handbook.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(f"handbook/{path.relative_to(folder)}", _ZIP_TIME)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = 0o644 << 16
                    out.writestr(entry, path.read_bytes())
        os.replace(packed, file)


@contextmanager
def _beside(file: Path) -> Iterator[str]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as draft:
        yield draft


def _demand_mkdocs() -> None:
    for module in ("mkdocs", "material"):
        if importlib.util.find_spec(module) is None:
            raise UserError('mkdocs-material is missing; run: pip install -e ".[site]"')


def _demand_ours(into: Path) -> None:
    if into.exists() and (not into.is_dir() or any(into.iterdir())) and not (into / STAMP).exists():
        raise UserError(f"{into} holds something else than a built site; name another folder.")


def _mkdocs(*words: str) -> list[str]:
    return [sys.executable, "-m", "mkdocs", *words]


def _environment(commit: str, offline: bool) -> dict[str, str]:
    ours = {"HANDBOOK_COMMIT": commit, "HANDBOOK_OFFLINE": "true" if offline else "false"}
    return {**os.environ, **ours, "NO_MKDOCS_2_WARNING": "1"}


def _run_mkdocs(root: Path, into: Path, commit: str, offline: bool) -> None:
    command = _mkdocs(
        "build", "--strict", "--site-dir", str(into)
    )  # --quiet hides warnings from strict
    done = subprocess.run(
        command, cwd=root, env=_environment(commit, offline), capture_output=True, text=True
    )
    if done.returncode:
        raise BuildFailed((done.stdout + done.stderr).strip())


def _replace(old: Path, new: Path) -> None:
    if old.exists():
        shutil.rmtree(old)
    os.replace(new, old)
