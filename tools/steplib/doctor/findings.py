"""One thing that was looked at, and how findings are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """`note` is worth knowing; `problem` keeps the checks from running."""

    topic: str
    state: State
    value: str
    mend: str = ""


def ok(topic: str, value: str) -> Finding:
    """Nothing to do."""
    return Finding(topic, "ok", value)


def note(topic: str, value: str, mend: str = "") -> Finding:
    """The checks run all the same."""
    return Finding(topic, "note", value, mend)


def problem(topic: str, value: str, mend: str) -> Finding:
    """The checks can't run, or can't be believed, until it is mended."""
    return Finding(topic, "problem", value, mend)


def is_sound(findings: Sequence[Finding]) -> bool:
    """Whether no finding is a problem."""
    return all(finding.state != "problem" for finding in findings)


def as_table(findings: Sequence[Finding]) -> dict[str, Any]:
    """What --json prints."""
    return {"sound": is_sound(findings), "findings": [asdict(finding) for finding in findings]}


def as_text(findings: Sequence[Finding]) -> str:
    """One line for each finding, its mend below it, and a count at the end."""
    width = max(len(finding.topic) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:7}  {finding.topic:{width}}  {finding.value}")
        if finding.mend:
            lines.append(f"{'':7}  {'':{width}}  -> {finding.mend}")
    counts = {state: sum(f.state == state for f in findings) for state in ("problem", "note")}
    lines.append("")
    lines.append(", ".join(_counted(number, word) for word, number in counts.items()))
    return "\n".join(lines)


def _counted(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
