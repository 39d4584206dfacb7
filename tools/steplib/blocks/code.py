"""`code PATH::Symbol [NN] [open]`: source quoted from a chapter's form, folded unless `open`."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

from steplib.blocks.base import BlockError, Request, fenced, split_symbol
from steplib.errors import did_you_mean
from steplib.symbols import symbols

if TYPE_CHECKING:
    from steplib.book import Chapter

LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".cu": "cuda", ".cpp": "cpp"}


def render(request: Request) -> str:
    """The symbol, or the whole file when none is named."""
    if not request.args:
        raise BlockError("Name what to quote: code PATH::Symbol, or code PATH for a whole file.")
    target, *options = request.args
    is_open = "open" in options
    numbers = [option for option in options if option != "open"]
    path, name = split_symbol(target)
    chapter = _chapter(request, numbers)
    source = _source(request, path, chapter)
    text = quoted(source, name, path) if name else source.rstrip()
    language = LANGUAGES.get(path[path.rfind(".") :], "text")
    if is_open:
        return fenced(text, language, target)
    return f'??? example "`{target}`"\n\n' + indent(fenced(text, language), "    ")


def quoted(source: str, name: str, path: str) -> str:
    """One symbol's source, dedented."""
    known = symbols(source)
    if name not in known:
        near = did_you_mean(name, known)
        raise BlockError(f"{path} has no symbol {name} in this chapter's form.{near}")
    return dedent(known[name].source(source.split("\n")))


def _chapter(request: Request, numbers: list[str]) -> Chapter:
    if len(numbers) > 1:
        raise BlockError(f'"{numbers[1]}" is one argument too many; write code PATH::Symbol NN.')
    if numbers:
        return request.numbered(numbers[0])
    if request.page_chapter is None:
        return request.book.last
    return request.chapter(len(request.args))


def _source(request: Request, path: str, chapter: Chapter) -> str:
    """The text of a tree's file, of the chapter's main or example, or of any other file."""
    if path == "main.py" or path.startswith("examples/"):
        file = chapter.folder / path
    elif path.startswith("minisgl/") or "/" not in path:
        return request.file(path, chapter).text()
    else:
        file = request.book.root / path
    if not file.is_file():
        raise BlockError(f"There is no file {path} to quote; mend the path.")
    return file.read_text(encoding="utf-8")
