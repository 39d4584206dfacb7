"""The pinned commit of upstream, brought into .cache once when the network allows it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from steplib.catalogue import Catalogue
from steplib.paths import cache_dir
from steplib.upstream.checkout import Checkout

LIMIT = 30.0
"""Seconds that the network may take."""
HOST = "https://github.com/"


def pinned(upstream: Catalogue, root: Path) -> Checkout | str:
    """The checkout, or one sentence that says why there is none."""
    folder = cache_dir(root) / "upstream" / upstream.commit
    if not folder.is_dir():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        try:
            if reason := _fetch(f"{HOST}{upstream.repository}", upstream.commit, draft):
                return f"{upstream.repository} could not be fetched: {reason}"
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return Checkout.at(folder)


def _fetch(address: str, commit: str, folder: Path) -> str:
    """Why it failed; nothing when the commit is checked out. Only `fetch` uses the network."""
    folder.mkdir(parents=True)
    steps = (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth", "1", address, commit],
        ["checkout", "--quiet", "FETCH_HEAD"],
    )
    for step in steps:
        if reason := _git(folder, step):
            return reason
    return ""


def _git(folder: Path, words: list[str]) -> str:
    silent = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, env=silent, capture_output=True, text=True, timeout=LIMIT
        )
    except FileNotFoundError:
        return "git is not installed."
    except subprocess.TimeoutExpired:
        return f"the network did not answer within {LIMIT:g} s."
    if done.returncode == 0:
        return ""
    first = done.stderr.strip().splitlines()[:1] or [f"git {words[0]} failed"]
    return first[0].removeprefix("fatal: ").rstrip(".") + "."
