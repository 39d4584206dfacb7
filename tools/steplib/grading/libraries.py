"""What a sandbox sees in place of installed libraries: transformers without its models."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from steplib.cache import installed
from steplib.paths import cache_dir

_LEFT_OUT = re.compile(r"modeling_.*|.*\.so|.*\.cu|.*\.h")
_KEPT_OF_GENERATION = re.compile(r"(__init__|configuration_utils|logits_process)\..*|__pycache__")
_ENGINES = ("minisgl", "sglang", "vllm")
"""Installed engines that could answer in place of the one that is handed in."""


@cache
def replaced() -> tuple[tuple[Path, Path], ...]:
    """(what is seen, where): the slim transformers, and an empty folder for each engine."""
    found = [(_slim(folder), folder) for folder in _folders("transformers")]
    empty = cache_dir() / "empty"
    empty.mkdir(exist_ok=True)
    return (*found, *((empty, folder) for name in _ENGINES for folder in _folders(name)))


def _folders(name: str) -> Iterator[Path]:
    """Where an installed package lies; one of the repository itself is not there anyway."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if "site-packages" in place:
            yield Path(place)
            if os.path.realpath(place) != place:
                yield Path(os.path.realpath(place))


def _slim(folder: Path) -> Path:
    """A copy of transformers with configurations and tokenizers alone; made once a version."""
    kept = cache_dir() / f"transformers-{installed('transformers')}-slim"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=kept.parent) as draft:
            made = Path(draft, "transformers")
            shutil.copytree(folder, made, ignore=_ignored)
            made.chmod(0o755)
            if not kept.is_dir():
                os.replace(made, kept)
    return kept


def _ignored(folder: str, names: list[str]) -> set[str]:
    if "/generation" in folder.partition("/transformers/")[2].join(("/", "")):
        return {name for name in names if not _KEPT_OF_GENERATION.fullmatch(name)}
    return {name for name in names if _LEFT_OUT.fullmatch(name)}
