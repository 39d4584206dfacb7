"""The files of one chapter's tree, and the TREE text that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from steplib.errors import UserError
from steplib.paths import sha256, write_atomically

if TYPE_CHECKING:
    from steplib.book import Chapter

Mark = Literal["created", "modified", "early", "untouched"]
HASH_LENGTH = 16  # hex digits shown in TREE


@dataclass(frozen=True)
class TreeFile:
    """One file: where it belongs in the tree, where its form lies, and which form it is."""

    path: str
    source: Path
    owner: int
    mark: Mark
    form: int

    @cached_property
    def data(self) -> bytes:
        """The form's bytes."""
        try:
            return self.source.read_bytes()
        except FileNotFoundError:
            raise UserError(
                f"{self.path}: its form {self.source} is missing; write that file."
            ) from None

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the form."""
        return sha256(self.data)

    def text(self) -> str:
        """The form as text."""
        return self.data.decode("utf-8")


@dataclass(frozen=True)
class Tree:
    """What a reader's working copy holds after a chapter; `files` is sorted by path."""

    chapter: Chapter
    files: dict[str, TreeFile]

    @cached_property
    def sha256(self) -> str:
        """One digest over every path and its content."""
        lines = (f"{file.path}\0{file.sha256}\n" for file in self.files.values())
        return sha256("".join(lines).encode())

    def write(self, into: Path) -> None:
        """Lay the tree out below the folder `into`."""
        for file in self.files.values():
            write_atomically(into / file.path, file.data)

    def text(self) -> str:
        """The content of the chapter's TREE file: mark, owner, hash, path."""
        name = f"{self.chapter.number:02d}"
        head = f"# The tree of chapter {name}. Made by: python tools/steps.py tree {name} --write\n"
        return head + "".join(
            f"{file.mark:<9}  {file.owner:02d}  {file.sha256[:HASH_LENGTH]}  {file.path}\n"
            for file in self.files.values()
        )
