"""Made-up results of a grading, for the tests of what is written from them."""

from __future__ import annotations

from hypothesis import strategies as st

from steplib.grading.schema import ClassReport, Item, Settings, SubmissionReport

NASTY = "<script>alert(1)</script>\x1b[31m\x00\u202e::notice title=Autograding report::{}"
MADE_AT = "2026-11-30T08:00:00Z"


def item(id_: str, points: float, most: float, **rest: object) -> Item:
    """An item of the chapter that its id begins with; passed if it has all its points."""
    number, _, name = id_.partition(".")
    facts = {
        "chapter": int(number),
        "title": name.replace(".", " "),
        "task": name.partition(".")[0],
        "verdict": "passed" if points == most else "failed",
        "message": "" if points == most else "expected 3, got 4",
    }
    return Item.model_validate(facts | {"id": id_, "points": points, "max_points": most} | rest)


def submission(name: str, items: list[Item], **rest: object) -> SubmissionReport:
    """A report whose sums are right."""
    facts = {
        "sha256": "ab" * 32,
        "seed": 11,
        "chapters": sorted({it.chapter for it in items}),
        "exercises": [],
        "versions": {"python": "3.12.1", "torch": "2.11.0"},
        "isolation": "bubblewrap",
        "seconds": 1.5,
        "points": sum(it.points for it in items),
        "max_points": sum(it.max_points for it in items),
    }
    return SubmissionReport.model_validate(facts | {"name": name, "items": items} | rest)


def class_report(*submissions: SubmissionReport) -> ClassReport:
    """A class of these."""
    settings = Settings(chapters=[7, 8], exercises=[], seed=5)
    return ClassReport(submissions=list(submissions), settings=settings, made_at=MADE_AT)


def ada() -> SubmissionReport:
    """One of each kind of item, a hidden one, and texts that want to break out."""
    items = [
        item("07.main", 2, 2),
        item("07.parity.tiny-qwen3", 0, 1.5, message="prompt 3, position 7\nexpected 5, got 6"),
        item("07.tests.secret", 0, 0.75, visibility="hidden", title="SECRET", message="SECRET"),
        item("07.tests.late", 0.5, 0.5, visibility="after_due_date", title="SECRET"),
        item("08.tests.pages", 0.25, 1, title=NASTY, message=NASTY),
        item("08.tests.slow", 0, 1, verdict="timed out", message=f"10 s\n{NASTY}\n::stop::"),
        item("08.tests.gone", 0, 1, verdict="missing", message=""),
        item("08.tests.gpu", 1, 1),
    ]
    return submission("ada", items, notes=[f"=1+1 {NASTY}"])


_VERDICTS = st.sampled_from(["passed", "failed", "error", "timed out", "missing"])
_SEEN = st.sampled_from(["visible", "visible", "hidden", "after_due_date", "after_published"])
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


@st.composite
def items(draw: st.DrawFn) -> Item:
    """An item with quarter steps of points, and any text."""
    most = draw(st.integers(0, 12))
    chapter = draw(st.integers(0, 3))
    return Item(
        id=f"{chapter:02d}.tests.{draw(st.integers(0, 10**6))}",
        chapter=chapter,
        title=draw(_TEXTS),
        task=draw(_TEXTS),
        points=draw(st.integers(0, most)) / 4,
        max_points=most / 4,
        verdict=draw(_VERDICTS),
        message=draw(_TEXTS),
        visibility=draw(_SEEN),
    )


submissions = st.lists(items(), max_size=12).map(lambda found: submission("ada", found))
