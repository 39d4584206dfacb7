"""JUnit XML: a test suite a chapter, whose points are properties of the suite."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from steplib.grading.formats.view import FAILS, NOT_SHOWN, Row, amount, chapters, plain, rows, share

if TYPE_CHECKING:
    from steplib.grading.schema import SubmissionReport

_KINDS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def as_junit(report: SubmissionReport) -> str:
    """The report as its student may see it."""
    root = Element("testsuites", name=plain(report.name), time=f"{report.seconds:.3f}")
    for number, _ in chapters(report):
        _suite(root, report, number, [row for row in rows(report) if row.chapter == number])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: Element, report: SubmissionReport, number: int, shown: list[Row]) -> None:
    kinds = [_kind(row) for row in shown]
    suite = SubElement(root, "testsuite", name=f"chapter {number:02d}", tests=str(len(shown)))
    for name, kind in _KINDS.items():
        suite.set(name, str(kinds.count(kind)))
    facts = {
        "points": amount(sum(row.points for row in shown)),
        "max_points": amount(sum(row.max_points for row in shown)),
        "seed": str(report.seed),
        "sha256": report.sha256,
        "isolation": report.isolation,
        **report.versions,
    }
    properties = SubElement(suite, "properties")
    for key, value in facts.items():
        SubElement(properties, "property", name=plain(key), value=plain(value))
    for row, kind in zip(shown, kinds, strict=True):
        _case(suite, row, kind)


def _case(suite: Element, row: Row, kind: str) -> None:
    case = SubElement(suite, "testcase", classname=row.id, name=row.title, time="0.000")
    if kind:
        message = row.message or row.verdict
        told = SubElement(case, kind, message=message.partition("\n")[0], type=row.verdict)
        told.text = message
    points = f"{share(row.points, row.max_points)} points"
    SubElement(case, "system-out").text = points


def _kind(row: Row) -> str:
    """The element below a test case that tells its end; none where it passed."""
    if row.verdict == "passed":
        return ""
    if row.verdict == NOT_SHOWN:
        return "skipped"
    return "failure" if row.verdict in FAILS else "error"
