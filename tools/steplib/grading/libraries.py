"""What a sandbox sees in place of installed libraries: transformers without its models."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from steplib.cache import installed
from steplib.paths import cache_dir

_HARMLESS = {"__init__", "configuration_utils", "logits_process"}  # as the import guard has it
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
    """A copy of transformers in which no model can run; made once a version."""
    kept = cache_dir() / f"transformers-{installed('transformers')}-slim"
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=kept.parent) as draft:
            made = Path(draft, "transformers")
            shutil.copytree(folder, made, ignore=_compiled)
            for source in filter(_is_model, made.rglob("*.py")):
                source.write_text(_names_alone(source))
            made.chmod(0o755)
            if not kept.is_dir():
                os.replace(made, kept)
    return kept


def _compiled(folder: str, names: list[str]) -> set[str]:
    """What was compiled from a source that is emptied."""
    source = Path(folder).parent / "x.py"
    if Path(folder).name != "__pycache__":
        return set()
    return {name for name in names if _is_model(source.with_name(name.partition(".")[0] + ".py"))}


def _is_model(source: Path) -> bool:
    if source.parent.name == "generation":
        return source.stem not in _HARMLESS
    return "models" in source.parts and source.name.startswith("modeling_")


def _names_alone(source: Path) -> str:
    """`__all__` of a source: transformers lists the names of its models before it imports any."""
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.unparse(node) + "\n"
    return ""
