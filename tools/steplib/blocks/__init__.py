"""The kinds of generated blocks: one module a kind, one row here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from steplib.blocks.base import BlockError, Request
from steplib.errors import did_you_mean

__all__ = ["KINDS", "BlockError", "Kind", "Request", "render"]


@dataclass(frozen=True)
class Kind:
    """How a block is asked for, the module that renders it, and what a reader gets."""

    usage: str
    module: str
    gives: str


KINDS = {
    "tree": Kind("tree NN", "tree", "the chapter's tree with its marks"),
    "contracts": Kind("contracts NN [PATH ...]", "contracts", "stubs of the files to write"),
    "code": Kind("code PATH[::Symbol] [NN] [open]", "code", "source of that chapter's form"),
    "output": Kind("output NN MODEL [mask=UNIT ...]", "output", "what main.py prints"),
    "example": Kind("example NN NAME MODEL [mask=UNIT ...]", "output", "what an example prints"),
    "tests": Kind("tests NN", "tests", "what the chapter's tests say"),
    "manifest": Kind("manifest NN early|inert", "manifest", "what later chapters lend"),
    "upstream": Kind("upstream PATH::Symbol ...", "upstream", "a box with permanent links"),
    "differences": Kind("differences [NN]", "differences", "a box for each difference"),
    "measured": Kind("measured NAME", "measured", "a table of a committed result"),
    "figure": Kind("figure NAME", "figure", "a drawing with its alternative text"),
    "exercises": Kind("exercises [NN]", "exercises", "a chapter's exercises, or all of them"),
    "chapters": Kind("chapters", "learning", "the learning path by stage"),
    "roadmap": Kind("roadmap", "roadmap", "every chapter and what it adds"),
    "upstream-files": Kind("upstream-files", "upstream_files", "each official file's chapter"),
    "kinds": Kind("kinds", "kinds", "this list"),
}


def render(kind: str, request: Request) -> str:
    """The content of a block. BlockError for an unknown kind or unusable arguments."""
    if kind not in KINDS:
        known = did_you_mean(kind, KINDS) or f" Known kinds: {', '.join(KINDS)}."
        raise BlockError(f'There is no kind of block "{kind}".{known}')
    module = importlib.import_module(f"steplib.blocks.{KINDS[kind].module}")
    text: str = module.render(request)
    return text.strip("\n")
