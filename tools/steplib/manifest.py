"""A chapter's step.toml: which files it brings, and what its check must see."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from steplib.errors import UserError
from steplib.records import read_toml, record

ENGINE = "minimal_engine.py"  # chapter 00's engine
REAL, OPTIONAL = "smollm2-135m", "qwen3-0.6b"  # real models; they join every chapter's parity


@dataclass(frozen=True)
class Early:
    """A later chapter's file that this one needs already; `whole`: in its owner's form."""

    path: str
    owner: int
    reason: str
    whole: bool = False


@dataclass(frozen=True)
class Later:
    """Names that are imported for type checking only and come in a later chapter."""

    module: str
    names: tuple[str, ...]
    chapter: int


@dataclass(frozen=True)
class Inert:
    """A symbol that the catalogue demands now and a later chapter puts to use."""

    symbol: str
    chapter: int


@dataclass(frozen=True)
class ParityRun:
    """One run of `generate` with these config keys; no models means all of the chapter's."""

    config: dict[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parity:
    """What is compared with transformers; each counter must be above zero in some run."""

    models: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    runs: tuple[ParityRun, ...] = (ParityRun(),)
    prompts: Literal["own", "shared"] = "own"  # what prompts.prompt_set calls its kinds


@dataclass(frozen=True)
class Main:
    """What main.py may do beyond the usual."""

    second_process: bool = False


@dataclass(frozen=True)
class Manifest:
    """step.toml, field for field."""

    number: int
    slug: str
    creates: tuple[str, ...] = ()
    modifies: tuple[str, ...] = ()
    early: tuple[Early, ...] = ()
    later: tuple[Later, ...] = ()
    inert: tuple[Inert, ...] = ()
    parity: Parity = field(default_factory=Parity)
    main: Main = field(default_factory=Main)

    @property
    def paths(self) -> list[str]:
        """Every path that the chapter touches, in the order of the manifest."""
        return [*self.creates, *self.modifies, *(entry.path for entry in self.early)]


def load(path: Path) -> Manifest:
    """The manifest at `path`; UserError for a missing file, unknown key, wrong type or path."""
    where = "/".join(path.parts[-3:])
    manifest = record(Manifest, read_toml(path, where), where)
    _check_folder(manifest, path.parent.name, where)
    _check_paths(manifest, where)
    _check_later(manifest, where)
    _check_runs(manifest, where)
    return manifest


def _check_folder(manifest: Manifest, folder: str, where: str) -> None:
    expected = f"{manifest.number:02d}-{manifest.slug}"
    if folder != expected:
        raise UserError(
            f'{where}: number and slug say "{expected}" but the folder is named "{folder}"; '
            "make them agree."
        )


def _check_paths(manifest: Manifest, where: str) -> None:
    seen: set[str] = set()
    for path in manifest.paths:
        if not _is_tree_path(path):
            raise UserError(
                f'{where}: "{path}" is no path of a tree; write it as "minisgl/..." '
                f"or as {ENGINE}, the one file outside the package."
            )
        if path in seen:
            raise UserError(f'{where}: "{path}" is listed twice; keep one entry.')
        seen.add(path)


def _check_later(manifest: Manifest, where: str) -> None:
    """What points to a later chapter must not point back."""
    promised = [
        *((f'early "{entry.path}"', entry.owner) for entry in manifest.early),
        *((f'later "{entry.module}"', entry.chapter) for entry in manifest.later),
        *((f'inert "{entry.symbol}"', entry.chapter) for entry in manifest.inert),
    ]
    for what, chapter in promised:
        if chapter <= manifest.number:
            raise UserError(f"{where}: {what} must name a later chapter, not {chapter:02d}.")


def _check_runs(manifest: Manifest, where: str) -> None:
    """A run on a model that the chapter doesn't list would never happen."""
    known = {*manifest.parity.models, REAL, OPTIONAL}
    for run in manifest.parity.runs:
        for model in run.models or ():
            if model not in known:
                raise UserError(
                    f'{where}: a parity run names the model "{model}", which is not in '
                    "parity.models; add it there or mend the name."
                )


def _is_tree_path(path: str) -> bool:
    pure = PurePosixPath(path)
    plain = str(pure) == path and "\\" not in path and ".." not in pure.parts
    return plain and (path == ENGINE or (len(pure.parts) > 1 and pure.parts[0] == "minisgl"))
