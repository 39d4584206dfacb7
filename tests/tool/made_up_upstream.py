"""Checkouts of upstream that are made up: a small one, and one from the catalogue's facts alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


class MadeUpCheckout:
    """A git repository with these files, committed."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        self.root = root
        for path, text in files.items():
            self.write(path, text)
        self.git("init", "--quiet")
        self.commit()

    def write(self, path: str, text: str) -> None:
        """Write a file, without a commit."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace `old`, which must be there once."""
        text = (self.root / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} holds {text.count(old)} times: {old}"
        self.write(path, text.replace(old, new))

    def commit(self) -> str:
        """Commit all of it; the commit's name."""
        who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        self.git("add", "--all")
        self.git(*who, "commit", "--quiet", "--message", "state")
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        """Run git in the repository."""
        done = subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True)
        return done.stdout.decode()


def sources(catalogue: Facts) -> dict[str, str]:
    """For each file of the catalogue a source of which a reader would write the same entry."""
    return {file["path"]: _source(file) for file in catalogue["files"]}


def _source(file: Facts) -> str:
    rows = [""] * file["lines"]
    if not file["path"].endswith(".py"):
        return "// native\n" * file["lines"]
    for symbol in file["symbols"]:
        _place(rows, symbol, "")
    if file["exports"] is not None:
        _put(rows, _free(rows, 1, len(rows))[0], f"__all__ = {file['exports']}")
    rows[-1] = rows[-1] or "# the end"
    return "\n".join(rows) + "\n"


def _place(rows: list[str], symbol: Facts, pad: str) -> None:
    """Lay a symbol on its lines: what is not known of it is filled with nothing."""
    first, last = symbol["line"], symbol["end_line"]
    if symbol.get("kind") == "constant":
        _put(rows, first, f"{symbol['name']} = (0" + (")" if first == last else ""))
        if first != last:
            _put(rows, last, ")")
        return
    marks = symbol["decorators"]
    for at, mark in enumerate(marks):
        _put(rows, first - len(marks) + at, f"{pad}@{mark}")
    _put(rows, first, f"{pad}{_head(symbol)}:" + (" ..." if first == last else ""))
    for method in symbol.get("methods", ()):
        _place(rows, method, pad + "    ")
    _fields(rows, symbol, pad + "    ")
    if not rows[last - 1]:
        _put(rows, last, f"{pad}    ...")


def _fields(rows: list[str], symbol: Facts, pad: str) -> None:
    taken = [(m["line"], m["end_line"]) for m in symbol.get("methods", ())]
    free = _free(rows, symbol["line"] + 1, symbol["end_line"])
    free = [at for at in free if not any(first <= at <= last for first, last in taken)]
    texts = list(_field_texts(symbol))
    for at, text in zip(free, texts, strict=False):
        _put(rows, at, pad + text)
    assert len(texts) <= len(free), f"{symbol['name']} has more fields than lines"


def _field_texts(symbol: Facts) -> Iterator[str]:
    for field in symbol.get("fields", ()):
        default = "" if field["default"] is None else f" = {field['default']}"
        yield f"{field['name']}: {field['type']}{default}"


def _head(symbol: Facts) -> str:
    if symbol.get("kind") == "class":
        bases = f"({', '.join(symbol['bases'])})" if symbol["bases"] else ""
        return f"class {symbol['name']}{bases}"
    return ("async " if symbol["async"] else "") + f"def {symbol['name']}{symbol['signature']}"


def _free(rows: list[str], first: int, last: int) -> list[int]:
    return [at for at in range(first, last + 1) if not rows[at - 1]]


def _put(rows: list[str], line: int, text: str) -> None:
    assert not rows[line - 1], f"line {line} is taken by {rows[line - 1]!r}"
    rows[line - 1] = text
