"""The sections of a chapter's page, with the words and the names that each of them has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

MAIN = "What main prints"
_NO_EXPLANATION = {
    "Self-test",
    "The tree so far",
    "The files you will write",
    "What you write, and in which order",
    "The reference code",  # nobody is sent there before a pass
    "Where we differ from mini-sglang",
    MAIN,
    "Tests",
    "Exercise",
    "What is still missing",
}
_CONTRACT = re.compile(r'```python title="([^" ]+\.py)[" ]')
_HEADING = re.compile(r"(#{2,6}) (.+)")
_SHORT = 3  # letters of the longest words that say nothing: "the", "is", "one"
_ENDING = re.compile(r"(?<=\w{3})(ions?|ing|ed|es|e|s)$")


@dataclass
class Section:
    """words: of its text. code: the names in its code. What its heading has counts three times.

    files: those whose contracts stand in it.
    """

    title: str
    line: int
    is_explanation: bool
    words: Counter[str] = field(default_factory=Counter)
    code: Counter[str] = field(default_factory=Counter)
    files: set[str] = field(default_factory=set)


def sections(page: str) -> list[Section]:
    """The page's sections, without what is generated. Lines count from 1."""
    found: list[Section] = []
    is_explanation = False
    for number, row, is_code in _own_rows(page):
        heading = None if is_code else _HEADING.fullmatch(row.rstrip())
        if heading:
            title = heading[2].replace("`", "")
            if heading[1] == "##":
                is_explanation = title not in _NO_EXPLANATION
            found.append(Section(title, number, is_explanation))
            found[-1].words.update(words_of(title) * 3)
            found[-1].code.update(re.findall(r"\w+", title) * 3)
        elif found:
            pieces = [row] if is_code else re.findall(r"`([^`]+)`", row)
            found[-1].code.update(name for piece in pieces for name in re.findall(r"\w+", piece))
            found[-1].words.update(words_of(row))
    _note_files(found, page)
    return found


def _note_files(found: list[Section], page: str) -> None:
    for number, row in enumerate(page.split("\n"), 1):
        contract = _CONTRACT.match(row)
        around = next((s for s in reversed(found) if s.line < number), None) if contract else None
        if contract and around:
            around.files.add(contract[1])


def _own_rows(page: str) -> Iterator[tuple[int, str, bool]]:
    """Number and text of each row that no block generates, and whether it is code."""
    is_generated = is_code = False
    for number, row in enumerate(page.split("\n"), 1):
        if row.startswith("<!-- begin: "):
            is_generated = True
        elif row.startswith("<!-- end -->"):
            is_generated = False
        elif is_generated:
            continue
        elif row.lstrip().startswith("```"):
            is_code = not is_code
        else:
            yield number, row, is_code


def words_of(text: str) -> list[str]:
    """Plain words without their endings; none that is too short to say anything."""
    found = re.findall(r"[a-z]+", text.lower())
    return [_ENDING.sub("", word) for word in found if len(word) > _SHORT]
