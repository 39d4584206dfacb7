"""`site publish`: a proved, stamped site in a folder or on a branch, with an offline zip beside."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from steplib import docs, site
from steplib.book import Book
from steplib.errors import UserError


@dataclass(frozen=True)
class Published:
    """Where it went: a folder, or a branch (not pushed), and the zip."""

    commit: str
    zip: Path
    folder: Path | None = None
    branch: str | None = None


def publish(root: Path, to: str) -> Published:
    """Publish what is committed; UserError when it is not all fresh or the strict build fails."""
    commit = _clean_commit(root)
    _demand_fresh(root)
    if _names_folder(to):
        folder = Path(to).expanduser().absolute()
        archive = folder.with_name(f"{folder.name}-offline.zip")
        _build(root, folder, commit)
        site.archive(root, archive, commit)
        return Published(commit, archive, folder=folder)
    archive = root / "dist" / f"{to}-offline.zip"
    site.archive(root, archive, commit)
    _commit_to_branch(root, to, commit)
    return Published(commit, archive, branch=to)


def _names_folder(to: str) -> bool:
    """A path is written with a slash or is there already; anything else is a branch."""
    return "/" in to or to.startswith((".", "~")) or Path(to).is_dir()


def _build(root: Path, folder: Path, commit: str) -> None:
    try:
        site.build(root, folder, commit)
    except site.BuildFailed as error:
        raise UserError(f"nothing was published, since the strict build fails: {error}") from None


def _clean_commit(root: Path) -> str:
    """The short id of the commit that is checked out; UserError when anything differs from it."""
    try:
        changed = _git(root, "status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        raise UserError(f"{root} is no git repository; publish from a clone.") from None
    if changed:
        first = changed.splitlines()[0][3:]
        raise UserError(f"{first} is not committed; commit or remove it, then publish.")
    return _git(root, "rev-parse", "--short=12", "HEAD")


def _demand_fresh(root: Path) -> None:
    book = Book.load(root)
    problems = docs.problems(book, docs.pages(book.root))
    if problems:
        raise UserError(f"nothing was published, since a block is not fresh: {problems[0]}")


def _commit_to_branch(root: Path, branch: str, commit: str) -> None:
    """Make the site the whole content of `branch`, beside the working copy and its index."""
    if _git(root, "rev-parse", "--abbrev-ref", "HEAD") == branch:
        raise UserError(f"{branch} is checked out here; publish to another branch.")
    _checked_name(root, branch)
    with tempfile.TemporaryDirectory() as draft:
        folder = Path(draft) / "site"
        _build(root, folder, commit)
        aside = {"GIT_INDEX_FILE": str(Path(draft) / "index"), "GIT_WORK_TREE": str(folder)}
        git_dir = _git(root, "rev-parse", "--absolute-git-dir")
        _git(folder, f"--git-dir={git_dir}", "add", "--all", "--force", ".", **aside)
        tree = _git(folder, f"--git-dir={git_dir}", "write-tree", **aside)
    name = f"refs/heads/{branch}"
    before = _git(root, "for-each-ref", "--format=%(objectname)", name)
    parent = ["-p", before] if before else []
    made = _git(root, "commit-tree", tree, *parent, "-m", f"Site of {commit}")
    _git(root, "update-ref", name, made, before)


def _checked_name(root: Path, branch: str) -> None:
    try:
        _git(root, "check-ref-format", "--branch", branch)
    except subprocess.CalledProcessError:
        raise UserError(f'"{branch}" can\'t be the name of a branch; name another.') from None


def _git(folder: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.rstrip("\n")
