"""No forward reference: what a chapter's tree, main, examples and tests name is in that tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steplib.errors import Problem, sentence
from steplib.manifest import Later
from steplib.modules import Index, read
from steplib.paths import shown
from steplib.references import Reference
from steplib.stage import fakes

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

CHECK = "references"
_SHARED = ("steps/book.py", "tests/pairs.py")
_VERBS = {
    "import": "This imports",
    "use": "This uses",
    "string": "A text here names",
    "relative": "A text here names",
}


def forward_references(book: Book, wanted: int | str) -> list[Problem]:
    """Every reference of the chapter that its own tree can't answer."""
    chapter = book.chapter(wanted)
    answers = _Answers(book, chapter)
    found: list[Problem] = []
    for source, path in _sources(book, chapter):
        where = shown(source, book.root)
        try:
            module = read(path, source.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError) as error:
            found.append(_unreadable(where, error))
            continue
        for reference in module.references:
            if not answers.has(reference):
                found.append(answers.problem(f"{where}:{reference.line}", reference))
    return list(dict.fromkeys(found)) + list(answers.stale_entries())


def later_entries(book: Book, number: int) -> list[Later]:
    """The [[later]] entries in force in a chapter: those so far whose chapter is still to come."""
    return [
        entry
        for chapter in book.chapters
        for entry in chapter.manifest.later
        if chapter.number <= number < entry.chapter
    ]


class _Answers:
    """What the tree of one chapter has, and for what it lacks, which chapter brings it."""

    def __init__(self, book: Book, chapter: Chapter) -> None:
        self._book = book
        self._chapter = chapter
        self._index = Index(book.tree(chapter.number))
        self._later = later_entries(book, chapter.number)
        self._used: set[tuple[str, str]] = set()

    def has(self, reference: Reference) -> bool:
        """Whether the tree answers it, or a [[later]] entry allows it."""
        if reference.kind == "computed":
            return False
        if reference.kind == "relative":  # any text with a leading dot: only known modules count
            known = self._index.has_module(reference.target)
            return known or self._brought_by(reference) is None
        return _is_in(self._index, reference) or self._is_listed(reference)

    def problem(self, where: str, reference: Reference) -> Problem:
        """The sentence for a reference without an answer."""
        if reference.kind == "computed":
            message = f"This imports {reference.target}, a name made at run time."
            return Problem(CHECK, where, message, "Choose it from a table of whole names.")
        bringer = self._brought_by(reference)
        if bringer is None:
            message = f"{_said(reference)}, which no chapter has."
            return Problem(CHECK, where, message, "Mend the name, or write what it names.")
        if bringer == self._chapter.number:
            return Problem(CHECK, where, f"{_said(reference)}, which is not there.", "Write it.")
        message = (
            f"{_said(reference)}, which comes with chapter {bringer:02d} "
            f"and is not in the tree of chapter {self._chapter.number:02d}."
        )
        if reference.typing_only:
            return Problem(CHECK, where, message, "List it under [[later]] in step.toml.")
        mend = f"Bring it [[early]], or do this in chapter {bringer:02d}."
        return Problem(CHECK, where, message, mend)

    def stale_entries(self) -> Iterator[Problem]:
        """[[later]] entries of this chapter that nothing needs."""
        where = f"steps/{self._chapter.name}/step.toml"
        for entry in self._chapter.manifest.later:
            for name in entry.names:
                if (entry.module, name) not in self._used:
                    message = f"[[later]] lists {name} of {entry.module}, and nothing needs it."
                    yield Problem(CHECK, where, message, "Delete the entry.")

    def _is_listed(self, reference: Reference) -> bool:
        if not reference.typing_only:
            return False
        for entry in self._later:
            if entry.module == reference.target and reference.name in entry.names:
                self._used.add((entry.module, reference.name))
                return True
        return False

    def _brought_by(self, reference: Reference) -> int | None:
        """The first chapter, from this one on, whose reference answers."""
        for chapter in self._book.chapters:
            if chapter.number >= self._chapter.number and _is_in(
                Index(self._book.reference(chapter.number)), reference
            ):
                return chapter.number
        return None


def _is_in(index: Index, reference: Reference) -> bool:
    if reference.kind in ("use", "string"):
        return index.has_dotted(reference.target)
    if not index.has_module(reference.target):
        return False
    return reference.name is None or index.has_name(
        reference.target, reference.name, reference.typing_only
    )


def _said(reference: Reference) -> str:
    target = f"{reference.name} from {reference.target}" if reference.name else reference.target
    return f"{_VERBS[reference.kind]} {target}"


def _unreadable(where: str, error: SyntaxError | UnicodeDecodeError) -> Problem:
    line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
    reason = error.msg if isinstance(error, SyntaxError) else error.reason
    said = f"This is not valid Python: {sentence(reason)}"
    return Problem(CHECK, where + line, said, "Mend the line.")


def _sources(book: Book, chapter: Chapter) -> Iterator[tuple[Path, str]]:
    """(file, its path in the tree) of the tree's modules and of what runs beside them."""
    for path, file in book.tree(chapter.number).files.items():
        if path.endswith(".py"):
            yield file.source, path
    beside = [
        chapter.main,
        *sorted((chapter.folder / "examples").glob("*.py")),
        *(book.root / path for path in _SHARED),
        *sorted((book.root / "tests").glob(f"test_ch{chapter.number:02d}_*.py")),
    ]
    beside = [source for source in beside if source.is_file()]
    beside += fakes(book.root, beside)
    yield from ((source, source.name) for source in beside)
