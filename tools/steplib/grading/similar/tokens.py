"""A file as the tokens that count: no interface lines, and of each name only its kind."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from tokenize import TokenInfo

_DROPPED = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
            tokenize.ENDMARKER}  # fmt: skip
_INTERFACE = {"import", "from", "def", "class", "async", "@"}
_NAME, _CALL, _ATTRIBUTE, _METHOD, _NUMBER, _STRING, _END = "n", "c", "a", "m", "1", "s", ";"


@dataclass(frozen=True)
class Token:
    """A token's kind, or itself for a keyword and an operator, and the line where it stands."""

    kind: str
    line: int


def tokens(source: bytes) -> list[Token]:
    """What can be read of the file; a part that is no Python ends it."""
    found: list[Token] = []
    for line in _logical_lines(source):
        if not _is_interface(line):
            found += _kinds(line)
    return found


def _logical_lines(source: bytes) -> Iterator[list[TokenInfo]]:
    line: list[TokenInfo] = []
    try:
        for token in tokenize.tokenize(io.BytesIO(source).readline):
            if token.type == tokenize.NEWLINE:
                yield line
                line = []
            elif token.type not in _DROPPED:
                line.append(token)
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError, ValueError):
        pass
    if line:
        yield line


def _is_interface(line: list[TokenInfo]) -> bool:
    """Imports, decorators, the heads of classes and functions, docstrings and bare annotations."""
    if not line:
        return True
    first = line[0].string
    if first == "async":
        return len(line) > 1 and line[1].string == "def"
    is_text = all(_is_string(token) for token in line)
    is_annotation = len(line) > 1 and line[0].type == tokenize.NAME and line[1].string == ":"
    is_field = is_annotation and not keyword.iskeyword(first) and not _assigns(line)
    return first in _INTERFACE or is_text or is_field


def _assigns(line: list[TokenInfo]) -> bool:
    return any(token.string == "=" for token in line)


def _is_string(token: TokenInfo) -> bool:
    return token.type == tokenize.STRING or "FSTRING" in tokenize.tok_name[token.type]


def _kinds(line: list[TokenInfo]) -> Iterator[Token]:
    for place, token in enumerate(line):
        after = line[place + 1].string if place + 1 < len(line) else ""
        before = line[place - 1].string if place else ""
        yield Token(_kind(token, before, after), token.start[0])
    yield Token(_END, line[-1].end[0])


def _kind(token: TokenInfo, before: str, after: str) -> str:
    if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
        if before == ".":
            return _METHOD if after == "(" else _ATTRIBUTE
        return _CALL if after == "(" else _NAME
    if token.type == tokenize.NUMBER:
        return _NUMBER
    return _STRING if _is_string(token) else token.string
