"""Which state of the handbook a grading used."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path


@cache
def handbook_commit(root: Path) -> str:
    """The commit, with a + where files were changed since; "unknown" outside of git."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return "unknown"
    return commit + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
