"""Results kept by content: the key is a hash over everything that the result depends on."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from steplib.paths import cache_dir, sha256, write_atomically

_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "coverage")
_KEPT_DAYS = 30
_DECIDING = (
    "apart", "apart_child", "check", "checks", "child", "context", "facts", "isolation", "jobs",
    "lineup", "mains", "mine", "oracle", "oracle_child", "outcome", "pairs", "parity",
    "paritycheck", "process", "prompts", "pump", "runningchecks", "stage", "staticchecks",
    "testfiles", "untouched", "warm",
)  # fmt: skip


@cache
def library_versions() -> tuple[str, ...]:
    """`name version` of each library that can change a result."""
    return tuple(f"{name} {installed(name)}" for name in _LIBRARIES)


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


@cache
def tool_sha256() -> str:
    """One digest over the sources of the tool that have a say in a verdict."""
    here = Path(__file__).parent
    sources = [here / f"{name}.py" for name in _DECIDING]
    return sha256(b"\0".join(path.read_bytes() for path in sources if path.is_file()))


def key(*parts: Any) -> str:
    """The hash of `parts` (plain data) together with the tool and the libraries."""
    whole = [tool_sha256(), library_versions(), parts]
    return sha256(json.dumps(whole, sort_keys=True, default=str).encode())


def file_sha256(path: Path) -> str:
    """The digest of one file; of nothing where it is missing."""
    return sha256(path.read_bytes() if path.is_file() else b"")


class Results:
    """Results of earlier runs under .cache/steps/results. is_fresh: write them, but don't read."""

    def __init__(self, root: Path, is_fresh: bool = False) -> None:
        self.folder = cache_dir(root) / "results"
        self.is_fresh = is_fresh
        self._prune()

    def get(self, key: str) -> dict[str, Any] | None:
        """The result kept under `key`."""
        if self.is_fresh:
            return None
        try:
            kept = json.loads((self.folder / f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return kept if isinstance(kept, dict) else None

    def _prune(self) -> None:
        oldest = time.time() - _KEPT_DAYS * 86400
        for path in self.folder.glob("*.json"):
            with suppress(FileNotFoundError):  # another run may be at it, too
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        write_atomically(self.folder / f"{key}.json", json.dumps(result))
