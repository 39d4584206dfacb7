"""Generated blocks in Markdown: where they stand, and the hash that shows a hand edit.

    <!-- begin: code minisgl/core.py::Req | sha256:0123456789abcdef -->
    ...written by the tool...
    <!-- end -->

An author writes the two markers without a hash; `steps.py docs` fills the block. Markers inside
a code fence are text, so that a page can show them. A block may be indented (inside a note).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent, indent

from steplib.paths import sha256

_BEGIN = re.compile(
    r"^(?P<indent> *)<!-- begin: (?P<spec>[^|<>]*[^|<> ])"
    r"(?: \| sha256:(?P<hash>[0-9a-f]{16}))? -->$"
)
_FENCE = re.compile(r"^ *(`{3,}|~{3,})")
_END = "<!-- end -->"


class MarkerError(Exception):
    """A marker that can't be read; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


@dataclass(frozen=True)
class Block:
    """One generated block. `line`: of its begin marker, from 1; `end`: of its end marker."""

    spec: str
    recorded: str | None
    content: str
    indent: str
    line: int
    end: int

    @property
    def kind(self) -> str:
        return self.spec.split()[0]

    @property
    def args(self) -> tuple[str, ...]:
        return tuple(self.spec.split()[1:])

    @property
    def is_empty(self) -> bool:
        """Just placed by its author, never filled."""
        return self.recorded is None and not self.content

    @property
    def is_intact(self) -> bool:
        """Its content is what the tool wrote."""
        return self.recorded == fingerprint(self.content)


def fingerprint(content: str) -> str:
    """The hash that a block's begin marker carries."""
    return sha256(content.encode())[:16]


def blocks(text: str) -> list[Block]:
    """Every block of a page, in order. Raises MarkerError at the first bad marker."""
    return list(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[Block]:
    fence, at = "", 0
    while at < len(lines):
        line = lines[at]
        fence = _fence_after(line, fence)
        if fence or "<!--" not in line:
            at += 1
            continue
        if line.strip() == _END:
            raise MarkerError(at + 1, "an end marker has no begin marker before it.")
        if "<!-- begin:" in line:
            block = _block(lines, at)
            yield block
            at = block.end - 1
        at += 1


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after `line`, or nothing."""
    found = _FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return found[1]
    closes = line.strip() == found[1] and found[1].startswith(fence)
    return "" if closes else fence


def _block(lines: list[str], at: int) -> Block:
    found = _BEGIN.match(lines[at].rstrip())
    if not found:
        raise MarkerError(
            at + 1, "this begin marker can't be read; write it as <!-- begin: KIND ARGUMENTS -->."
        )
    for end in range(at + 1, len(lines)):
        if lines[end].strip() == _END:
            content = dedent("\n".join(lines[at + 1 : end])).strip("\n")
            return Block(found["spec"], found["hash"], content, found["indent"], at + 1, end + 1)
        if "<!-- begin:" in lines[end]:
            break
    raise MarkerError(
        at + 1, f'the block "{found["spec"]}" has no end marker; add {_END} below it.'
    )


def replace(text: str, contents: dict[int, str]) -> str:
    """The page with new content for the blocks whose begin marker's line is a key."""
    lines = text.split("\n")
    for block in reversed(blocks(text)):
        if block.line in contents:
            lines[block.line - 1 : block.end] = _written(block, contents[block.line])
    return "\n".join(lines)


def _written(block: Block, content: str) -> list[str]:
    begin = f"<!-- begin: {block.spec} | sha256:{fingerprint(content)} -->"
    inner = indent(f"{begin}\n\n{content}\n\n{_END}", block.indent)
    return inner.split("\n")
