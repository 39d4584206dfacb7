"""The book: its chapters, each file's forms, and the tree of each chapter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from steplib import manifest, plan
from steplib.errors import Problem, UserError
from steplib.manifest import Early, Manifest
from steplib.paths import ROOT
from steplib.tree import Mark, Tree, TreeFile

__all__ = ["Book", "Chapter", "Form", "Touch", "Tree", "TreeFile"]

_FOLDER = re.compile(r"\d\d-[a-z0-9-]+")


@dataclass(frozen=True)
class Chapter:
    """A written chapter: its manifest and its folder under steps/."""

    manifest: Manifest
    folder: Path

    @property
    def number(self) -> int:
        return self.manifest.number

    @property
    def slug(self) -> str:
        return self.manifest.slug

    @property
    def name(self) -> str:
        """The folder's and the page's name: `05-attention-backend`."""
        return f"{self.number:02d}-{self.slug}"

    @property
    def title(self) -> str:
        """The title of the plan; a chapter outside the plan is titled by its slug."""
        planned = plan.load().get(self.number)
        return planned.title if planned else self.slug.replace("-", " ").capitalize()

    @property
    def main(self) -> Path:
        return self.folder / "main.py"


@dataclass(frozen=True)
class Touch:
    """One chapter's entry for one path: how it touches the file."""

    chapter: int
    mark: Mark
    early: Early | None = None


@dataclass(frozen=True)
class Form:
    """One state of a file; forms are numbered from 1, and `source` is where this one lies."""

    path: str
    chapter: int
    number: int
    source: Path
    is_last: bool


@dataclass(frozen=True)
class Book:
    """Everything that the manifests say, in order of chapter number."""

    root: Path
    chapters: list[Chapter]

    @classmethod
    def load(cls, root: Path = ROOT) -> Book:
        """Read every manifest under steps/; UserError when one is unusable or there is none."""
        root = root.resolve()
        steps = root / "steps"
        folders = sorted(steps.iterdir()) if steps.is_dir() else []
        found = [path for path in folders if path.is_dir() and _FOLDER.fullmatch(path.name)]
        if not found:
            raise UserError(f"{root} holds no book: it has no chapter folder under steps/.")
        chapters = [Chapter(manifest.load(path / "step.toml"), path) for path in found]
        return cls(root, sorted(chapters, key=lambda chapter: chapter.number))

    @property
    def last(self) -> Chapter:
        """The newest chapter; its tree is the finished package."""
        return self.chapters[-1]

    def chapter(self, wanted: int | str) -> Chapter:
        """The chapter for 5, "5", "05" or "05-attention-backend"; UserError for any other."""
        text = str(wanted)
        for chapter in self.chapters:
            if text == chapter.name or (text.isdecimal() and int(text) == chapter.number):
                return chapter
        first, last = self.chapters[0].number, self.last.number
        raise UserError(f'There is no chapter "{text}"; the book has {first:02d} to {last:02d}.')

    @cached_property
    def touches(self) -> dict[str, list[Touch]]:
        """For each path, which chapters touch it and how, in chapter order."""
        found: dict[str, list[Touch]] = {}
        for chapter in self.chapters:
            entries = chapter.manifest
            for path in entries.creates:
                found.setdefault(path, []).append(Touch(chapter.number, "created"))
            for path in entries.modifies:
                found.setdefault(path, []).append(Touch(chapter.number, "modified"))
            for early in entries.early:
                found.setdefault(early.path, []).append(Touch(chapter.number, "early", early))
        return dict(sorted(found.items()))

    def owner(self, path: str) -> int:
        """The chapter that creates `path`, or is to create it where it is here early."""
        touches = self.touches[path]
        created = [touch.chapter for touch in touches if touch.mark == "created"]
        early = [touch.early.owner for touch in touches if touch.early]
        return (created + early + [touches[0].chapter])[0]

    def forms(self, path: str) -> list[Form]:
        """The file's forms, oldest first; a `whole` early entry borrows its owner's form."""
        makers = [touch.chapter for touch in self.touches[path] if not self._borrows(path, touch)]
        return [
            Form(path, chapter, i, self._source(path, chapter, i == len(makers)), i == len(makers))
            for i, chapter in enumerate(makers, 1)
        ]

    @property
    def earlier_forms(self) -> int:
        """How many forms of the whole book are not the last of their file."""
        return sum(len(self.forms(path)) - 1 for path in self.touches)

    def tree(self, wanted: int | str) -> Tree:
        """The chapter's tree as it is to be checked: the reference."""
        return self.reference(wanted)

    def reference(self, wanted: int | str) -> Tree:
        """For each file the newest form made in chapters 0 to `wanted`."""
        chapter = self.chapter(wanted)
        files = {}
        for path, touches in self.touches.items():
            so_far = [touch for touch in touches if touch.chapter <= chapter.number]
            if so_far:
                files[path] = self._tree_file(path, so_far[-1], chapter.number)
        return Tree(chapter, files)

    def before(self, number: int) -> dict[str, TreeFile]:
        """The files of the chapter before, by path; none before the first."""
        earlier = [chapter.number for chapter in self.chapters if chapter.number < number]
        return self.reference(earlier[-1]).files if earlier else {}

    def problems(self) -> list[Problem]:
        """Everything that is wrong with manifests, forms, finished package and TREE files."""
        from steplib import consistency

        return consistency.problems(self)

    def _tree_file(self, path: str, touch: Touch, number: int) -> TreeFile:
        maker = self.owner(path) if self._borrows(path, touch) else touch.chapter
        form = next(form for form in self.forms(path) if form.chapter == maker)
        mark = touch.mark if touch.chapter == number else "untouched"
        return TreeFile(path, form.source, self.owner(path), mark, form.number)

    def _borrows(self, path: str, touch: Touch) -> bool:
        """Whether the touch makes no form: it takes a form that a written chapter creates."""
        return bool(touch.early and touch.early.whole) and any(
            other.mark == "created" for other in self.touches[path]
        )

    def _source(self, path: str, chapter: int, is_last: bool) -> Path:
        if is_last and path.startswith("minisgl/"):
            return self.root / path
        return self.chapter(chapter).folder / "files" / path
