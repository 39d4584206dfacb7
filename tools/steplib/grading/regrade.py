"""Two gradings side by side: whose score changed, in which items, and what else was different."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steplib.grading.formats.view import amount, count, plain

if TYPE_CHECKING:
    from steplib.grading.schema import ClassReport, Item, SubmissionReport

_SHORT = 12
_WIDTH = 160


@dataclass(frozen=True)
class Change:
    """One item as it was and as it is; None where that grading did not have it."""

    id: str
    old: Item | None
    new: Item | None


@dataclass(frozen=True)
class Difference:
    """A student of both gradings. causes: what could explain a change, one phrase each."""

    old: SubmissionReport
    new: SubmissionReport
    changes: list[Change]
    causes: list[str]


@dataclass(frozen=True)
class Comparison:
    """settings: what was asked for otherwise. gone and come: students of one grading only."""

    settings: list[str]
    differences: list[Difference]
    gone: list[str]
    come: list[str]
    both: int

    @property
    def is_same(self) -> bool:
        """Whether both gradings give everybody the same points in every item."""
        return not (self.differences or self.gone or self.come)


def compare(old: ClassReport, new: ClassReport) -> Comparison:
    """Students whose points changed, in the total or in an item."""
    before = {report.name: report for report in old.submissions}
    after = {report.name: report for report in new.submissions}
    both = [name for name in after if name in before]
    found = [_difference(before[name], after[name]) for name in both]
    return Comparison(
        settings=_settings(old, new),
        differences=[it for it in found if it.changes],
        gone=[name for name in before if name not in after],
        come=[name for name in after if name not in before],
        both=len(both),
    )


def _difference(old: SubmissionReport, new: SubmissionReport) -> Difference:
    before = {item.id: item for item in old.items}
    after = {item.id: item for item in new.items}
    changes = [
        Change(id_, before.get(id_), after.get(id_))
        for id_ in {**before, **after}
        if _scored(before.get(id_)) != _scored(after.get(id_))
    ]
    return Difference(old, new, changes, _causes(old, new))


def _scored(item: Item | None) -> tuple[float, float] | None:
    return (item.points, item.max_points) if item else None


def _causes(old: SubmissionReport, new: SubmissionReport) -> list[str]:
    found = []
    if old.sha256 != new.sha256:
        found.append(f"content {old.sha256[:_SHORT]} -> {new.sha256[:_SHORT]}")
    for name in {**old.versions, **new.versions}:
        found += _changed(name, old.versions.get(name, "none"), new.versions.get(name, "none"))
    found += _changed("seed", old.seed, new.seed)
    found += _changed("isolation", old.isolation, new.isolation)
    return found


def _settings(old: ClassReport, new: ClassReport) -> list[str]:
    was, now = old.settings, new.settings
    return [
        *_changed("chapters", _listed(was.chapters), _listed(now.chapters)),
        *_changed("exercises", _listed(was.exercises), _listed(now.exercises)),
        *_changed("seed", was.seed, now.seed),
    ]


def _changed(name: str, was: object, now: object) -> list[str]:
    return [f"{name} {was} -> {now}"] if was != now else []


def _listed(values: list[int] | list[str]) -> str:
    texts = [f"{value:02d}" if isinstance(value, int) else value for value in values]
    return ", ".join(texts) or "none"


def lines(found: Comparison) -> Iterator[str]:
    """The comparison for a person."""
    if found.settings:
        yield f"settings: {'; '.join(found.settings)}"
    for difference in found.differences:
        yield from _told(difference)
    if found.gone:
        yield f"only in the old grading: {', '.join(map(plain, found.gone))}"
    if found.come:
        yield f"only in the new grading: {', '.join(map(plain, found.come))}"
    if not found.differences:
        yield f"no score of {count(found.both, 'student')} changed"
    else:
        yield f"{len(found.differences)} of {count(found.both, 'student')} changed"


def _told(found: Difference) -> Iterator[str]:
    was, now = _total(found.old), _total(found.new)
    total = f"{was} -> {now}" if was != now else f"{now}, as before in total"
    yield f"{plain(found.new.name)}  {total}"
    same = "content, versions, seed and isolation are the same"
    yield f"  {'; '.join(map(plain, found.causes)) or same}"
    said = set[str]()
    for change in found.changes:
        yield f"  {plain(change.id)}  {_points(change.old)} -> {_points(change.new)}"
        for word, item in (("was", change.old), ("is", change.new)):
            if message := _message(item):
                yield f"      {word:<4}{'as above' if message in said else message}"
                said.add(message)


def _total(report: SubmissionReport) -> str:
    return f"{amount(report.points)} of {amount(report.max_points)}"


def _points(item: Item | None) -> str:
    if item is None:
        return "not graded"
    return f"{item.verdict} {amount(item.points)} of {amount(item.max_points)}"


def _message(item: Item | None) -> str:
    if item is None or item.verdict == "passed":
        return ""
    line = " ".join(plain(item.message).split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
