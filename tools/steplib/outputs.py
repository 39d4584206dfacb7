"""What a chapter's script prints in a real run, kept until something that it depends on changes."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from steplib import models, normalize, process, stage
from steplib.errors import UserError
from steplib.paths import cache_dir, sha256, shown, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable

    from steplib.book import Book, Chapter

LIMIT = 300.0
"""Seconds that a script may take."""

LIBRARIES = ("torch", "transformers", "numpy", "tokenizers")


def printed(
    book: Book, chapter: Chapter, script: Path, model: str, units: Iterable[str] = ()
) -> str:
    """The script's output, normalized. UserError when it fails or a checkpoint is not here."""
    place = models.ensure(model)
    key = _key(book, chapter, script, model)
    text = _kept(_note(book, chapter, script, model), key)
    if text is None:
        text = _run(book, chapter, script, place)
        _write(_note(book, chapter, script, model), key, text)
    return normalize.normalized(text, units)


def keep(book: Book, chapter: Chapter, script: Path, model: str, text: str) -> None:
    """Keep what a script printed in a run of `check`, so that its page needs no second one."""
    key = _key(book, chapter, script, model)
    _write(_note(book, chapter, script, model), key, text)


def _note(book: Book, chapter: Chapter, script: Path, model: str) -> Path:
    return cache_dir(book.root) / "outputs" / f"{chapter.name}-{script.stem}-{model}.json"


def _write(note: Path, key: str, text: str) -> None:
    write_atomically(note, json.dumps({"key": key, "text": text}))


def _key(book: Book, chapter: Chapter, script: Path, model: str) -> str:
    """Changes with whatever can change the output."""
    files = [script, *stage.shared_files(book.root)]
    parts = [book.tree(chapter.number).sha256, models.sha256(model)]
    parts += [sha256(_read(file, book)) for file in files]
    parts += [f"{name} {_version(name)}" for name in LIBRARIES]
    return sha256("\n".join(parts).encode())


def _read(file: Path, book: Book) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{shown(file, book.root)} is missing; write it.") from None


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def _kept(note: Path, key: str) -> str | None:
    try:
        known = json.loads(note.read_bytes())
        return str(known["text"]) if known["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run(book: Book, chapter: Chapter, script: Path, model: Path) -> str:
    """One run on the chapter's own tree; its own folders are named as a reader would name them."""
    tree, may_start = book.tree(chapter.number), chapter.manifest.main.second_process
    body = {"script": script.name, "argv": ["--model", str(model)]}
    with stage.staged(tree, book.root, [script]) as place:
        job = place.job("main", body, second_process=may_start)
        outcome = process.Launcher(model.parent).run(job, LIMIT)
    errors = [str(error["message"]) for error in outcome.of_kind("error")]
    if errors or outcome.ending != "done":
        what = errors[0] if errors else outcome.detail
        raise UserError(f"{shown(script, book.root)} failed: {what.rstrip('.')}; mend it.")
    folders = {model.parent: "models", place.tree: "tree", place.scratch: ".", book.root: "."}
    return normalize.without_folders(outcome.stdout, folders)
